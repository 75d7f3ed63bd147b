output "target_group_arn" {
  description = "Value for load_balancer.target_group_arn of the chart."
  value       = aws_lb_target_group.this.arn
}

output "security_group_id" {
  description = "Security group of the load balancer."
  value       = aws_security_group.this.id
}

output "dns_name" {
  description = "Name to which the domain of the service must point."
  value       = aws_lb.this.dns_name
}

output "arn" {
  description = "The load balancer."
  value       = aws_lb.this.arn
}
