{{/* tollgate.yaml. Secrets are referred to as variables; the entrypoint of the images reads them from files. */}}
{{- define "tollgate.config" -}}
{{- $control := printf "%s-control" (include "tollgate.name" .) -}}
{{- $base := include "tollgate.baseConfig" . | fromYaml -}}
{{- if hasKey $base "Error" }}{{ fail (printf "the configuration of the chart is not YAML: %s" $base.Error) }}{{ end -}}
{{- toYaml (mergeOverwrite $base (deepCopy .Values.config)) -}}
{{- end -}}

{{- define "tollgate.baseConfig" -}}
{{- $control := printf "%s-control" (include "tollgate.name" .) -}}
listen: 0.0.0.0:8080
workers: {{ .Values.workers }}
store: {{ include "tollgate.store" . | quote }}
{{- if .Values.redis.ca_secret.name }}
store_tls: { ca: /run/secrets/redis-ca/ca.crt }
{{- end }}
cluster: { id: "{{ .Values.project_name }}-{{ .Values.environment }}" }
control:
  listen: 0.0.0.0:9145
  allow: {{ toJson .Values.control_allow }}
  hosts:
    - {{ $control }}
    - {{ $control }}.{{ .Release.Namespace }}
    - {{ $control }}.{{ .Release.Namespace }}.svc
    - {{ include "tollgate.controlHost" . }}
  admin_token: "${TOLLGATE_ADMIN_TOKEN:-}"
  plane_token: "${TOLLGATE_PLANE_TOKEN}"
  {{- if .Values.control_tls.secret }}
  tls: { cert: /run/secrets/control-tls/tls.crt, key: /run/secrets/control-tls/tls.key }
  {{- end }}
envoy:
  listen: 0.0.0.0:9147
  {{- if .Values.control_tls.secret }}
  tls: { cert: /run/secrets/control-tls/tls.crt, key: /run/secrets/control-tls/tls.key }
  {{- end }}
identity: { trusted_hops: {{ toJson .Values.trusted_hops }} }
apps:
  default: {{ toJson .Values.default_app }}
upstreams:
  http: { dns: { name: {{ include "tollgate.host" (dict "root" . "name" .Values.http_backend.name) }}, port: {{ .Values.http_backend.port }} } }
  websocket: { dns: { name: {{ include "tollgate.host" (dict "root" . "name" .Values.websocket_backend.name) }}, port: {{ .Values.websocket_backend.port }} } }
routes:
  - { path: {{ .Values.http_backend.path }}, upstream: http }
  - path: {{ .Values.websocket_backend.path }}
    upstream: websocket
    connections:
      max_per_pod: {{ .Values.max_connections_per_pod }}
      max_total: {{ .Values.max_connections_total }}
      rate_per_second: {{ divf .Values.rate_limit_requests_per_minute 60 }}
      burst: {{ .Values.rate_limit_burst }}
timeouts: { shutdown_ms: {{ .Values.shutdown_ms }} }
{{- end -}}

{{- define "tollgate.store" -}}
{{- if .Values.redis.bundled -}}
redis://{{ .Values.redis_service_name }}:6379
{{- else -}}
{{ required "redis.url: set the URL of a Redis, or redis.bundled" .Values.redis.url }}
{{- end -}}
{{- end -}}
