output "dns_name" {
  description = "Name of the load balancer."
  value       = module.alb.dns_name
}

output "cluster" {
  description = "Name of the EKS cluster."
  value       = module.eks.name
}

output "redis_url" {
  description = "URL of Redis."
  value       = module.elasticache.url
}
