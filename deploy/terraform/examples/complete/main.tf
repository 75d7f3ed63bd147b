# Everything on AWS: network, cluster, Redis, load balancer, and Tollgate. The values come from terraform.auto.tfvars.json, which
# `make deploy-files` writes from the values of the chart. No backend is configured: add a backend.tf of your own.
locals {
  name = "${var.project_name}-${var.environment}"
  tags = { project = var.project_name, environment = var.environment, managed_by = "terraform" }
}

provider "aws" {
  region = var.region
  default_tags {
    tags = local.tags
  }
}

data "aws_caller_identity" "current" {}

resource "aws_kms_key" "this" {
  description         = "${local.name}: logs, Kubernetes secrets, Redis"
  enable_key_rotation = true
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid       = "Account"
        Effect    = "Allow"
        Principal = { AWS = "arn:aws:iam::${data.aws_caller_identity.current.account_id}:root" }
        Action    = "kms:*"
        Resource  = "*"
      },
      {
        Sid       = "Logs"
        Effect    = "Allow"
        Principal = { Service = "logs.${var.region}.amazonaws.com" }
        Action    = ["kms:Encrypt", "kms:Decrypt", "kms:ReEncrypt*", "kms:GenerateDataKey*", "kms:DescribeKey"]
        Resource  = "*"
        Condition = {
          ArnLike = { "kms:EncryptionContext:aws:logs:arn" = "arn:aws:logs:${var.region}:${data.aws_caller_identity.current.account_id}:*" }
        }
      },
    ]
  })
}

module "network" {
  source             = "../../modules/network"
  name               = local.name
  availability_zones = [for letter in var.zones : "${var.region}${letter}"]
  kms_key_arn        = aws_kms_key.this.arn
}

module "alb" {
  source               = "../../modules/alb"
  name                 = substr(local.name, 0, 22)
  vpc_id               = module.network.vpc_id
  vpc_cidr             = module.network.vpc_cidr
  subnet_ids           = module.network.public_subnet_ids
  certificate_arn      = var.certificate_arn
  idle_timeout_seconds = var.idle_timeout_seconds
}

module "eks" {
  source              = "../../modules/eks"
  cluster_name        = "${var.cluster_name}-${var.environment}"
  subnet_ids          = module.network.private_subnet_ids
  public_access_cidrs = var.public_access_cidrs
  kms_key_arn         = aws_kms_key.this.arn
  target_group_arns   = [module.alb.target_group_arn]
}

resource "aws_vpc_security_group_ingress_rule" "envoy" {
  security_group_id            = module.eks.security_group_id
  description                  = "Load balancer to Envoy"
  referenced_security_group_id = module.alb.security_group_id
  ip_protocol                  = "tcp"
  from_port                    = 8080
  to_port                      = 8080
}

resource "random_password" "redis" {
  length  = 64
  special = false
}

module "elasticache" {
  source                    = "../../modules/elasticache"
  name                      = local.name
  vpc_id                    = module.network.vpc_id
  subnet_ids                = module.network.private_subnet_ids
  client_security_group_ids = [module.eks.security_group_id]
  auth_token                = random_password.redis.result
  kms_key_arn               = aws_kms_key.this.arn
}

data "aws_eks_cluster_auth" "this" {
  name = module.eks.name
}

provider "kubernetes" {
  host                   = module.eks.endpoint
  cluster_ca_certificate = module.eks.certificate_authority
  token                  = data.aws_eks_cluster_auth.this.token
}

provider "helm" {
  kubernetes = {
    host                   = module.eks.endpoint
    cluster_ca_certificate = module.eks.certificate_authority
    token                  = data.aws_eks_cluster_auth.this.token
  }
}

resource "helm_release" "load_balancer_controller" {
  name       = "aws-load-balancer-controller"
  namespace  = "kube-system"
  repository = "https://aws.github.io/eks-charts"
  chart      = "aws-load-balancer-controller"
  version    = var.load_balancer_controller_version
  values = [yamlencode({
    clusterName    = module.eks.name
    vpcId          = module.network.vpc_id
    region         = var.region
    serviceAccount = { name = "aws-load-balancer-controller" }
  })]
}
