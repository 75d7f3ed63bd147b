output "release" {
  description = "Name of the release."
  value       = helm_release.this.name
}

output "namespace" {
  description = "Its namespace."
  value       = helm_release.this.namespace
}

output "version" {
  description = "Installed version of the chart."
  value       = helm_release.this.version
}
