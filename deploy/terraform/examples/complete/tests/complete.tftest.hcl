# Plans and applies everything with the schemas of the real providers, but without AWS: what AWS would reply is invented.
mock_provider "helm" {}
mock_provider "kubernetes" {}
mock_provider "random" {
  mock_resource "random_password" {
    defaults = { result = "a-password-of-the-tests" }
  }
}
mock_provider "aws" {
  mock_data "aws_partition" {
    defaults = { partition = "aws" }
  }
  mock_data "aws_caller_identity" {
    defaults = { account_id = "123456789012" }
  }
  mock_data "aws_elb_service_account" {
    defaults = { arn = "arn:aws:iam::797873946194:root" }
  }
  mock_resource "aws_kms_key" {
    defaults = { arn = "arn:aws:kms:us-west-2:123456789012:key/k" }
  }
  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::123456789012:role/r" }
  }
  mock_resource "aws_lb" {
    defaults = { arn = "arn:aws:elasticloadbalancing:us-west-2:123456789012:loadbalancer/app/a/1" }
  }
  mock_resource "aws_lb_target_group" {
    defaults = { arn = "arn:aws:elasticloadbalancing:us-west-2:123456789012:targetgroup/t/1" }
  }
  mock_resource "aws_cloudwatch_log_group" {
    defaults = { arn = "arn:aws:logs:us-west-2:123456789012:log-group:g" }
  }
  mock_resource "aws_s3_bucket" {
    defaults = { arn = "arn:aws:s3:::logs" }
  }
  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0" }
  }
  mock_resource "aws_eks_cluster" {
    defaults = { endpoint = "https://cluster.example.com", certificate_authority = [{ data = "Y2VydGlmaWNhdGU=" }] }
  }
  mock_resource "aws_elasticache_replication_group" {
    defaults = { primary_endpoint_address = "redis.example.com" }
  }
}

variables {
  certificate_arn     = "arn:aws:acm:us-west-2:123456789012:certificate/c"
  public_access_cidrs = ["203.0.113.0/24"]
}

# Nothing is known yet, as in a new account.
run "plan" {
  command = plan
}

run "apply" {
  command = apply

  assert {
    condition     = output.redis_url == "rediss://default@redis.example.com:6379"
    error_message = "The services must use TLS to Redis."
  }
}
