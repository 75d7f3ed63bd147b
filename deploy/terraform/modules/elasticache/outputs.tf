output "url" {
  description = "Value for redis.url of the chart. The password is not part of it."
  value       = "rediss://default@${aws_elasticache_replication_group.this.primary_endpoint_address}:6379"
}

output "security_group_id" {
  description = "Security group of Redis."
  value       = aws_security_group.this.id
}
