variable "name" {
  description = "Name of the load balancer."
  type        = string
  validation {
    condition     = can(regex("^[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?$", var.name))
    error_message = "name must have at most 22 lowercase letters, digits and hyphens."
  }
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
}

variable "vpc_cidr" {
  description = "Addresses of the pods."
  type        = string
}

variable "subnet_ids" {
  description = "Public subnets in at least two zones; private ones if internal."
  type        = list(string)
}

variable "internal" {
  description = "Reachable from the VPC only."
  type        = bool
  default     = false
}

variable "client_cidrs" {
  description = "Networks of clients."
  type        = list(string)
  default     = ["0.0.0.0/0"]
}

variable "certificate_arn" {
  description = "Certificate (ACM) of the listener."
  type        = string
  validation {
    condition     = can(regex("^arn:[a-z-]+:acm:", var.certificate_arn))
    error_message = "certificate_arn must be the ARN of an ACM certificate."
  }
}

variable "idle_timeout_seconds" {
  description = "Idle connections are closed after this. Above the ping interval of WebSocket clients; load_balancer.idle_timeout_seconds of the chart must be the same."
  type        = number
  default     = 3600
  validation {
    condition     = var.idle_timeout_seconds >= 60 && var.idle_timeout_seconds <= 4000
    error_message = "idle_timeout_seconds must be 60 to 4000."
  }
}

variable "drain_seconds" {
  description = "How long running requests of a pod that leaves may continue."
  type        = number
  default     = 15
}

variable "deletion_protection" {
  description = "Keep the load balancer and its logs from being deleted."
  type        = bool
  default     = true
}

variable "log_days" {
  description = "How long access logs are kept."
  type        = number
  default     = 90
}
