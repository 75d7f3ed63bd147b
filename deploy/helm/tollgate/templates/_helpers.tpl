{{- define "tollgate.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tollgate.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: {{ .Values.project_name }}
tollgate/environment: {{ .Values.environment }}
{{- end -}}

{{/* Call with (dict "root" $ "component" "nginx"). */}}
{{- define "tollgate.selector" -}}
app.kubernetes.io/name: tollgate
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/component: {{ .component }}
{{- end -}}

{{/* The service is named as the release, the planes have a suffix. */}}
{{- define "tollgate.componentName" -}}
{{- include "tollgate.name" .root }}{{ if ne .component "service" }}-{{ .component }}{{ end -}}
{{- end -}}

{{- define "tollgate.image" -}}
{{- $values := .root.Values -}}
{{- $custom := get $values (printf "custom_%s_image" .component) -}}
{{- $suffix := ternary "" (printf "-%s" .component) (eq .component "service") -}}
{{- $name := printf "%s%s%s" (ternary "" (printf "%s/" $values.image.registry) (empty $values.image.registry)) $values.image.repository $suffix -}}
{{- if $custom -}}{{ $custom }}
{{- else if and $values.image.digest (eq .component "service") -}}{{ $name }}@{{ $values.image.digest }}
{{- else -}}{{ $name }}:{{ $values.image.tag | default .root.Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* A service in this namespace as a complete name, because nginx does not use search domains; a name with a dot as it is. */}}
{{- define "tollgate.host" -}}
{{- if or (contains "." .name) (empty .root.Values.cluster_domain) -}}{{ .name }}{{- else -}}{{ .name }}.{{ .root.Release.Namespace }}.svc.{{ .root.Values.cluster_domain }}{{- end -}}
{{- end -}}

{{- define "tollgate.controlHost" -}}
{{- include "tollgate.host" (dict "root" . "name" (printf "%s-control" (include "tollgate.name" .))) -}}
{{- end -}}

{{- define "tollgate.secretName" -}}
{{- if .Values.secrets.create -}}{{ include "tollgate.name" . }}-tokens
{{- else -}}{{ required "secrets.existing: name a secret with admin-token and plane-token, or set secrets.create" .Values.secrets.existing }}
{{- end -}}
{{- end -}}

{{- define "tollgate.podSecurity" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
fsGroup: 10001
seccompProfile: { type: RuntimeDefault }
{{- end -}}

{{- define "tollgate.containerSecurity" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
capabilities: { drop: [ALL] }
{{- end -}}

{{/* What all pods have in common. */}}
{{- define "tollgate.podSpec" -}}
serviceAccountName: {{ include "tollgate.name" .root }}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- include "tollgate.podSecurity" . | nindent 2 }}
{{- with .root.Values.image.pull_secrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .root.Values.priority_class_name }}
priorityClassName: {{ . }}
{{- end }}
{{- with .root.Values.node_selector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
# One pod after the other on other nodes and zones, as far as there are any.
topologySpreadConstraints:
  {{- range list "topology.kubernetes.io/zone" "kubernetes.io/hostname" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "tollgate.selector" $ | nindent 8 }}
  {{- end }}
affinity:
  podAntiAffinity:
    preferredDuringSchedulingIgnoredDuringExecution:
      - weight: 100
        podAffinityTerm:
          topologyKey: kubernetes.io/hostname
          labelSelector:
            matchLabels:
              {{- include "tollgate.selector" . | nindent 14 }}
{{- end -}}

{{/* Seconds from the end of the drain to SIGKILL: what the process may use, and some more. */}}
{{- define "tollgate.gracePeriod" -}}
{{- add .Values.drain_seconds (div (add .Values.shutdown_ms 999) 1000) 5 -}}
{{- end -}}

{{/* Pods restart when their configuration changes. */}}
{{- define "tollgate.podAnnotations" -}}
checksum/config: {{ include "tollgate.config" .root | sha256sum }}
{{- with .root.Values.secrets.revision }}
tollgate/secrets-revision: {{ . | quote }}
{{- end }}
{{- with .root.Values.pod_annotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Components with replicas, as a list of their names. */}}
{{- define "tollgate.components" -}}
service
{{- if gt (int .Values.nginx_replicas) 0 }} nginx{{ end -}}
{{- if gt (int .Values.envoy_replicas) 0 }} envoy{{ end -}}
{{- end -}}
