# Redis or Valkey in several zones with automatic failover, TLS and a password.
resource "aws_elasticache_subnet_group" "this" {
  name       = var.name
  subnet_ids = var.subnet_ids
}

resource "aws_security_group" "this" {
  name_prefix = "${var.name}-redis-"
  description = "Redis of ${var.name}"
  vpc_id      = var.vpc_id
  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_vpc_security_group_ingress_rule" "this" {
  # Not for_each: the groups may be created in the same run, so their ids are not known yet.
  count                        = length(var.client_security_group_ids)
  security_group_id            = aws_security_group.this.id
  description                  = "Tollgate services"
  referenced_security_group_id = var.client_security_group_ids[count.index]
  ip_protocol                  = "tcp"
  from_port                    = 6379
  to_port                      = 6379
}

# An evicted key would reset a bucket or free connection slots that are in use.
resource "aws_elasticache_parameter_group" "this" {
  name   = "${var.name}-${var.engine}${split(".", var.engine_version)[0]}"
  family = "${var.engine}${split(".", var.engine_version)[0]}"
  parameter {
    name  = "maxmemory-policy"
    value = "noeviction"
  }
}

resource "aws_elasticache_replication_group" "this" {
  replication_group_id = var.name
  description          = "Limits of ${var.name}"
  engine               = var.engine
  engine_version       = var.engine_version
  node_type            = var.node_type
  port                 = 6379
  parameter_group_name = aws_elasticache_parameter_group.this.name
  subnet_group_name    = aws_elasticache_subnet_group.this.name
  security_group_ids   = [aws_security_group.this.id]

  num_cache_clusters         = 1 + var.replicas
  automatic_failover_enabled = true
  multi_az_enabled           = true

  transit_encryption_enabled = true
  at_rest_encryption_enabled = true
  kms_key_id                 = var.kms_key_arn
  auth_token                 = var.auth_token
  auth_token_update_strategy = "ROTATE"

  snapshot_retention_limit   = var.snapshot_days
  maintenance_window         = var.maintenance_window
  auto_minor_version_upgrade = true
  apply_immediately          = false
}
