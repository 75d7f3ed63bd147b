# Tollgate itself: a release of the Helm chart. Secrets are named, not passed, so that they are not in the state of this module.
resource "helm_release" "this" {
  name      = var.name
  namespace = var.namespace
  chart     = var.chart
  version   = var.chart_version
  atomic    = true
  timeout   = var.timeout_seconds
  values    = concat([yamlencode(local.values)], var.values)
}

locals {
  values = {
    project_name                   = var.project_name
    environment                    = var.environment
    region                         = var.region
    service_replicas               = var.service_replicas
    nginx_replicas                 = var.nginx_replicas
    envoy_replicas                 = var.envoy_replicas
    max_connections_per_pod        = var.max_connections_per_pod
    rate_limit_requests_per_minute = var.rate_limit_requests_per_minute
    redis = {
      bundled         = var.redis_url == ""
      url             = var.redis_url
      password_secret = { name = var.redis_password_secret }
    }
    secrets = { create = var.tokens_secret == "", existing = var.tokens_secret }
    load_balancer = {
      enabled              = var.target_group_arn != ""
      target_group_arn     = var.target_group_arn
      idle_timeout_seconds = var.idle_timeout_seconds
    }
  }
}
