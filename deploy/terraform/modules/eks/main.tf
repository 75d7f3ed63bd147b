# An EKS cluster with one group of nodes, and the add-ons that the chart relies on: network policies (VPC CNI), metrics for autoscaling,
# and Pod Identity for the controller that registers pods with the load balancer.
data "aws_partition" "current" {}

locals {
  policies = "arn:${data.aws_partition.current.partition}:iam::aws:policy"
  trusted = { for service in ["eks.amazonaws.com", "ec2.amazonaws.com", "pods.eks.amazonaws.com"] : service => jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = service == "pods.eks.amazonaws.com" ? ["sts:AssumeRole", "sts:TagSession"] : ["sts:AssumeRole"]
      Principal = { Service = service }
    }]
  }) }
}

resource "aws_iam_role" "cluster" {
  name               = "${var.cluster_name}-cluster"
  assume_role_policy = local.trusted["eks.amazonaws.com"]
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "${local.policies}/AmazonEKSClusterPolicy"
}

resource "aws_cloudwatch_log_group" "cluster" {
  name              = "/aws/eks/${var.cluster_name}/cluster"
  retention_in_days = 365
  kms_key_id        = var.kms_key_arn
}

resource "aws_eks_cluster" "this" {
  name                      = var.cluster_name
  version                   = var.kubernetes_version
  role_arn                  = aws_iam_role.cluster.arn
  enabled_cluster_log_types = ["api", "audit", "authenticator", "controllerManager", "scheduler"]

  access_config {
    authentication_mode                         = "API"
    bootstrap_cluster_creator_admin_permissions = true
  }

  vpc_config {
    subnet_ids              = var.subnet_ids
    endpoint_private_access = true
    endpoint_public_access  = length(var.public_access_cidrs) > 0
    public_access_cidrs     = length(var.public_access_cidrs) > 0 ? var.public_access_cidrs : null
  }

  encryption_config {
    resources = ["secrets"]
    provider {
      key_arn = var.kms_key_arn
    }
  }

  depends_on = [aws_iam_role_policy_attachment.cluster, aws_cloudwatch_log_group.cluster]
}

resource "aws_iam_role" "node" {
  name               = "${var.cluster_name}-node"
  assume_role_policy = local.trusted["ec2.amazonaws.com"]
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each   = toset(["AmazonEKSWorkerNodePolicy", "AmazonEC2ContainerRegistryPullOnly", "AmazonEKS_CNI_Policy"])
  role       = aws_iam_role.node.name
  policy_arn = "${local.policies}/${each.key}"
}

# Pods cannot reach the credentials of the node: one hop ends at the node itself.
resource "aws_launch_template" "node" {
  name_prefix = "${var.cluster_name}-"
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 1
  }
  block_device_mappings {
    device_name = "/dev/xvda"
    ebs {
      volume_size = 40
      volume_type = "gp3"
      encrypted   = true
    }
  }
  tag_specifications {
    resource_type = "instance"
    tags          = { Name = "${var.cluster_name}-node" }
  }
}

resource "aws_eks_node_group" "this" {
  cluster_name    = aws_eks_cluster.this.name
  node_group_name = "default"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = var.subnet_ids
  instance_types  = var.instance_types

  launch_template {
    id      = aws_launch_template.node.id
    version = aws_launch_template.node.latest_version
  }

  scaling_config {
    min_size     = var.nodes.min
    desired_size = var.nodes.min
    max_size     = var.nodes.max
  }

  update_config {
    max_unavailable = 1
  }

  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }

  depends_on = [aws_iam_role_policy_attachment.node]
}

resource "aws_eks_addon" "this" {
  for_each = {
    "vpc-cni"                = jsonencode({ enableNetworkPolicy = "true" })
    "kube-proxy"             = null
    "coredns"                = null
    "metrics-server"         = null
    "eks-pod-identity-agent" = null
  }
  cluster_name         = aws_eks_cluster.this.name
  addon_name           = each.key
  configuration_values = each.value
  # A new cluster has its own copies of some of them.
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "PRESERVE"
  depends_on                  = [aws_eks_node_group.this]
}

# The AWS Load Balancer Controller. Terraform creates the load balancer, so the controller only registers pods with its target group.
resource "aws_iam_role" "controller" {
  name               = "${var.cluster_name}-load-balancer-controller"
  assume_role_policy = local.trusted["pods.eks.amazonaws.com"]
}

resource "aws_iam_role_policy" "controller" {
  name = "register-pods"
  role = aws_iam_role.controller.id
  policy = jsonencode({
    Version = "2012-10-17"
    Statement = [
      {
        Sid    = "Read"
        Effect = "Allow"
        Action = [
          "ec2:DescribeAvailabilityZones", "ec2:DescribeInstances", "ec2:DescribeNetworkInterfaces", "ec2:DescribeSecurityGroups",
          "ec2:DescribeSubnets", "ec2:DescribeVpcs", "elasticloadbalancing:DescribeTargetGroups",
          "elasticloadbalancing:DescribeTargetHealth", "elasticloadbalancing:DescribeTags",
        ]
        Resource = "*"
      },
      {
        Sid      = "Register"
        Effect   = "Allow"
        Action   = ["elasticloadbalancing:RegisterTargets", "elasticloadbalancing:DeregisterTargets"]
        Resource = var.target_group_arns
      },
    ]
  })
}

resource "aws_eks_pod_identity_association" "controller" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = "kube-system"
  service_account = "aws-load-balancer-controller"
  role_arn        = aws_iam_role.controller.arn
}
