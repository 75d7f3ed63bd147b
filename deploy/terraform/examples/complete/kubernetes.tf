# What is created in the cluster. The tests apply this file to an API server, with outputs of AWS that they invent.
resource "kubernetes_namespace_v1" "tollgate" {
  metadata {
    name   = var.namespace
    labels = { "pod-security.kubernetes.io/enforce" = "restricted" }
  }
}

resource "kubernetes_secret_v1" "redis" {
  metadata {
    name      = "tollgate-redis"
    namespace = kubernetes_namespace_v1.tollgate.metadata[0].name
  }
  data = { password = random_password.redis.result }
}

module "tollgate" {
  source                         = "../../modules/tollgate"
  namespace                      = kubernetes_namespace_v1.tollgate.metadata[0].name
  chart                          = "${path.module}/../../../helm/tollgate"
  project_name                   = var.project_name
  environment                    = var.environment
  region                         = var.region
  service_replicas               = var.service_replicas
  nginx_replicas                 = var.nginx_replicas
  envoy_replicas                 = var.envoy_replicas
  max_connections_per_pod        = var.max_connections_per_pod
  rate_limit_requests_per_minute = var.rate_limit_requests_per_minute
  redis_url                      = module.elasticache.url
  redis_password_secret          = kubernetes_secret_v1.redis.metadata[0].name
  target_group_arn               = module.alb.target_group_arn
  idle_timeout_seconds           = var.idle_timeout_seconds
  values = [
    yamlencode({ autoscaling = { enabled = true }, demo = { enabled = var.demo } }),
    yamlencode({ control_allow = [module.network.vpc_cidr, "127.0.0.0/8"] }),
  ]
  depends_on = [helm_release.load_balancer_controller]
}
