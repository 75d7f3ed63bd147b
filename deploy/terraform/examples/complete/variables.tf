# Values of terraform.auto.tfvars.json, and those that only an installation knows.
variable "project_name" {
  description = "Project."
  type        = string
}

variable "environment" {
  description = "dev, staging or production."
  type        = string
}

variable "region" {
  description = "AWS region."
  type        = string
}

variable "cluster_name" {
  description = "Name of the EKS cluster; the environment is appended."
  type        = string
}

variable "namespace" {
  description = "Kubernetes namespace."
  type        = string
}

variable "service_replicas" {
  description = "Services."
  type        = number
}

variable "nginx_replicas" {
  description = "nginx planes."
  type        = number
}

variable "envoy_replicas" {
  description = "Envoy planes."
  type        = number
}

variable "max_connections_per_pod" {
  description = "WebSocket connections per backend pod."
  type        = number
}

variable "rate_limit_requests_per_minute" {
  description = "New WebSocket connections per minute."
  type        = number
}

variable "idle_timeout_seconds" {
  description = "Idle timeout of the load balancer."
  type        = number
}

variable "certificate_arn" {
  description = "Certificate (ACM) of the load balancer."
  type        = string
}

variable "public_access_cidrs" {
  description = "Networks from which Terraform and operators reach the API server of Kubernetes."
  type        = list(string)
}

variable "demo" {
  description = "Deploy demo backends."
  type        = bool
  default     = false
}

variable "zones" {
  description = "Zones of the region, by their letters."
  type        = list(string)
  default     = ["a", "b", "c"]
}

variable "load_balancer_controller_version" {
  description = "Version of the chart of the AWS Load Balancer Controller."
  type        = string
  default     = "1.13.4"
}
