variable "name" {
  description = "Name of the VPC, and prefix of its parts."
  type        = string
  validation {
    condition     = can(regex("^[a-z][a-z0-9-]{1,30}$", var.name))
    error_message = "name must have 2 to 31 lowercase letters, digits and hyphens, and start with a letter."
  }
}

variable "cidr" {
  description = "Addresses of the VPC. Each subnet gets a sixteenth."
  type        = string
  default     = "10.20.0.0/16"
  validation {
    condition     = can(cidrnetmask(var.cidr)) && tonumber(split("/", var.cidr)[1]) <= 20
    error_message = "cidr must be an IPv4 network of at least /20."
  }
}

variable "availability_zones" {
  description = "Zones to use."
  type        = list(string)
  validation {
    condition     = length(var.availability_zones) >= 2 && length(var.availability_zones) <= 6
    error_message = "availability_zones: name two to six zones; the load balancer and Redis need at least two."
  }
}

variable "single_nat_gateway" {
  description = "One NAT gateway instead of one per zone: cheaper, but an outage of its zone cuts all zones off the internet."
  type        = bool
  default     = false
}

variable "kms_key_arn" {
  description = "Key for logs. It must allow CloudWatch Logs to use it."
  type        = string
}
