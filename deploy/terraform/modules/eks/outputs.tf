output "name" {
  description = "Name of the cluster."
  value       = aws_eks_cluster.this.name
}

output "endpoint" {
  description = "URL of the API server."
  value       = aws_eks_cluster.this.endpoint
}

output "certificate_authority" {
  description = "CA of the API server, PEM."
  value       = base64decode(aws_eks_cluster.this.certificate_authority[0].data)
}

output "security_group_id" {
  description = "Security group of nodes and pods."
  value       = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
}
