variable "name" {
  description = "Name of the replication group."
  type        = string
  validation {
    condition     = can(regex("^[a-z]([a-z0-9-]{0,38}[a-z0-9])?$", var.name)) && !can(regex("--", var.name))
    error_message = "name must have at most 40 lowercase letters, digits and single hyphens, and start with a letter."
  }
}

variable "engine" {
  description = "redis or valkey."
  type        = string
  default     = "valkey"
  validation {
    condition     = contains(["redis", "valkey"], var.engine)
    error_message = "engine must be redis or valkey."
  }
}

variable "engine_version" {
  description = "Redis 7.1, or Valkey 7.2 or later."
  type        = string
  default     = "8.0"
  validation {
    condition     = can(regex("^([7-9]|[1-9][0-9])\\.[0-9]+$", var.engine_version))
    error_message = "engine_version must be 7.0 or later: functions are required."
  }
}

variable "node_type" {
  description = "Type of the nodes. Use one core with much of its time free: Redis executes one command at a time."
  type        = string
  default     = "cache.m7g.large"
}

variable "replicas" {
  description = "Replicas besides the primary."
  type        = number
  default     = 2
  validation {
    condition     = var.replicas >= 1 && var.replicas <= 5
    error_message = "replicas must be 1 to 5: without a replica there is no failover."
  }
}

variable "auth_token" {
  description = "Password."
  type        = string
  sensitive   = true
  validation {
    condition     = can(regex("^[A-Za-z0-9!&#$^<>-]{16,128}$", var.auth_token))
    error_message = "auth_token must have 16 to 128 letters, digits and characters of !&#$^<>-."
  }
}

variable "vpc_id" {
  description = "The VPC."
  type        = string
}

variable "subnet_ids" {
  description = "Private subnets in at least two zones."
  type        = list(string)
}

variable "client_security_group_ids" {
  description = "Security groups of the services, and of nothing else: planes do not use Redis."
  type        = list(string)
}

variable "kms_key_arn" {
  description = "Key for data at rest."
  type        = string
}

variable "snapshot_days" {
  description = "How long daily snapshots are kept."
  type        = number
  default     = 3
}

variable "maintenance_window" {
  description = "When AWS may replace nodes, in UTC."
  type        = string
  default     = "sun:03:00-sun:04:00"
}
