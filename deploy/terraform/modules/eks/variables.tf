variable "cluster_name" {
  description = "Name of the cluster."
  type        = string
  validation {
    condition     = can(regex("^[a-zA-Z][a-zA-Z0-9-]{0,40}$", var.cluster_name))
    error_message = "cluster_name must have at most 41 letters, digits and hyphens, and start with a letter."
  }
}

variable "kubernetes_version" {
  description = "Version of Kubernetes, for example 1.35."
  type        = string
  default     = "1.35"
  validation {
    condition     = can(regex("^1\\.(2[7-9]|[3-9][0-9])$", var.kubernetes_version))
    error_message = "kubernetes_version must be 1.27 or later: the chart needs it."
  }
}

variable "subnet_ids" {
  description = "Private subnets in at least two zones."
  type        = list(string)
  validation {
    condition     = length(var.subnet_ids) >= 2
    error_message = "subnet_ids: name subnets in at least two zones."
  }
}

variable "public_access_cidrs" {
  description = "Networks that may reach the API server over the internet. Empty: only from within the VPC."
  type        = list(string)
  default     = []
  validation {
    condition     = !contains(var.public_access_cidrs, "0.0.0.0/0")
    error_message = "public_access_cidrs must not contain 0.0.0.0/0."
  }
}

variable "instance_types" {
  description = "Types of the nodes."
  type        = list(string)
  default     = ["m7i.large"]
}

variable "nodes" {
  description = "Smallest and largest number of nodes."
  type        = object({ min = number, max = number })
  default     = { min = 3, max = 9 }
  validation {
    condition     = var.nodes.min >= 2 && var.nodes.max >= var.nodes.min
    error_message = "nodes: min must be at least 2, and max at least min."
  }
}

variable "kms_key_arn" {
  description = "Key for Kubernetes secrets and logs."
  type        = string
}

variable "target_group_arns" {
  description = "Target groups in which the load balancer controller may register pods."
  type        = list(string)
}
