{{- define "millrace.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 45 | trimSuffix "-" }}
{{- end }}

{{- /* The name of everything: a host's, so without dots and beginning with a letter, and 45 long at most, since a
StatefulSet's with "-worker" may have 52: its pods carry it in a label with the hash of its revision. */ -}}
{{- define "millrace.fullname" -}}
{{- $name := .Release.Name }}
{{- if .Values.fullnameOverride }}{{ $name = .Values.fullnameOverride }}
{{- else if not (contains (include "millrace.name" .) .Release.Name) }}
{{- $name = printf "%s-%s" .Release.Name (include "millrace.name" .) }}
{{- end }}
{{- $name = $name | lower | replace "." "-" | replace "_" "-" }}
{{- if regexMatch "^[0-9]" $name }}{{ $name = printf "millrace-%s" (trimSuffix "-millrace" $name) }}{{ end }}
{{- $name | trunc 45 | trimSuffix "-" }}
{{- end }}

{{- define "millrace.selector" -}}
app.kubernetes.io/name: {{ include "millrace.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "millrace.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" }}
{{ include "millrace.selector" . }}
app.kubernetes.io/version: {{ .Values.image.tag | default .Chart.AppVersion | trunc 63 | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "millrace.serviceAccount" -}}
{{- if .Values.serviceAccount.create }}{{ default (include "millrace.fullname" .) .Values.serviceAccount.name }}
{{- else }}{{ default "default" .Values.serviceAccount.name }}
{{- end }}
{{- end }}

{{- define "millrace.image" -}}
{{- with .Values.image -}}
{{ .repository }}{{ if .digest }}@{{ .digest }}{{ else }}:{{ .tag | default $.Chart.AppVersion }}{{ end }}
{{- end }}
{{- end }}

{{- define "millrace.scalesByKubernetes" -}}
{{- if eq (dig "scaling" "provider" "" .Values.config) "kubernetes" }}true{{ end }}
{{- end }}

{{- define "millrace.engineNamespace" -}}
{{- dig "scaling" "kubernetes" "namespace" "" .Values.config | default .Values.rbac.engineNamespace | default .Release.Namespace }}
{{- end }}

{{- /* The configuration: what was given, over what the chart knows. */ -}}
{{- define "millrace.config" -}}
{{- $given := deepCopy .Values.config }}
{{- $known := dict "listen" "0.0.0.0:8700" "worker" (dict "listen" "0.0.0.0:8701") }}
{{- with .Values.secrets }}
{{- if .tokens.name }}{{ $_ := set $known "auth" (dict "tokens_file" (printf "/run/secrets/tokens/%s" .tokens.key)) }}{{ end }}
{{- if .tls.name }}
{{- $tls := dict "cert_file" "/run/secrets/tls/tls.crt" "key_file" "/run/secrets/tls/tls.key" }}
{{- if .tls.clientCA }}{{ $_ := set $tls "client_ca_file" (printf "/run/secrets/tls/%s" .tls.clientCA) }}{{ end }}
{{- $_ := set $known "tls" $tls }}
{{- end }}
{{- if .engineKeys.name }}
{{- $_ := set $known "engine_urls" (dict "keys_file" (printf "/run/secrets/engine-keys/%s" .engineKeys.key)) }}
{{- end }}
{{- end }}
{{- if .Values.engines.enabled }}
{{- $name := printf "%s-engines.%s.svc" (include "millrace.fullname" .) .Release.Namespace }}
{{- $_ := set $known "engines_from" (printf "dns:%s:%d" $name (int .Values.engines.port)) }}
{{- end }}
{{- if include "millrace.scalesByKubernetes" . }}
{{- $pods := dict }}
{{- with .Values.rbac.engineNamespace }}{{ $_ := set $pods "namespace" . }}{{ end }}
{{- if .Values.enginePod }}{{ $_ := set $pods "template" "/etc/millrace/engine-pod.yaml" }}{{ end }}
{{- $_ := set $known "scaling" (dict "deployment" (include "millrace.fullname" .) "kubernetes" $pods) }}
{{- end }}
{{- mergeOverwrite $known $given | toYaml }}
{{- end }}

{{- /* What of the configuration only a restart takes up: its checksum replaces pods, and no other change does. */ -}}
{{- define "millrace.restartChecksum" -}}
{{- $config := include "millrace.config" . | fromYaml }}
{{- $rest := omit $config "log_level" "limits" "retention" "retention_runs" "engines" "engines_from" }}
{{- with $rest.auth }}{{ $_ := set $rest "auth" (omit . "trusted_proxies") }}{{ end }}
{{- with $rest.scaling }}{{ $_ := set $rest "scaling" (omit . "window" "policy" "engines" "min" "max" "scale_to_zero" "price" "budget_per_hour" "cold_start" "queue" "starvation") }}{{ end }}
{{- toYaml $rest | sha256sum }}
{{- end }}

{{- define "millrace.securityContext" -}}
runAsNonRoot: true
runAsUser: 65532
runAsGroup: 65532
fsGroup: 65532
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "millrace.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "millrace.env" -}}
- {name: MILLRACE_CONFIG, value: /etc/millrace/service.yaml}
{{- with .Values.secrets }}
{{- if .redis.name }}
- {name: MILLRACE_REDIS_URL, valueFrom: {secretKeyRef: {name: {{ .redis.name | quote }}, key: {{ .redis.key | quote }}}}}
{{- end }}
{{- if .temporal.name }}
- {name: TEMPORAL_API_KEY, valueFrom: {secretKeyRef: {name: {{ .temporal.name | quote }}, key: {{ .temporal.key | quote }}}}}
{{- end }}
{{- if .engines.name }}
- {name: MILLRACE_ENGINE_API_KEY, valueFrom: {secretKeyRef: {name: {{ .engines.name | quote }}, key: {{ .engines.key | quote }}}}}
{{- end }}
{{- if .axiom.name }}
- {name: AXIOM_TOKEN, valueFrom: {secretKeyRef: {name: {{ .axiom.name | quote }}, key: {{ .axiom.key | quote }}}}}
{{- end }}
{{- end }}
{{- with .Values.env }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Tokens and the certificate are the server's alone. */ -}}
{{- define "millrace.serverVolumeMounts" -}}
{{ include "millrace.volumeMounts" . }}
- {name: tokens, mountPath: /run/secrets/tokens, readOnly: true}
{{- if .Values.secrets.tls.name }}
- {name: tls, mountPath: /run/secrets/tls, readOnly: true}
{{- end }}
{{- end }}

{{- define "millrace.serverVolumes" -}}
{{ include "millrace.volumes" . }}
- name: tokens
  secret: {secretName: {{ .Values.secrets.tokens.name | quote }}}
{{- with .Values.secrets.tls.name }}
- name: tls
  secret: {secretName: {{ . | quote }}}
{{- end }}
{{- end }}

{{- define "millrace.volumeMounts" -}}
- {name: config, mountPath: /etc/millrace, readOnly: true}
- {name: tmp, mountPath: /tmp}
- {name: spool, mountPath: /var/lib/millrace}
{{- if .Values.secrets.engineKeys.name }}
- {name: engine-keys, mountPath: /run/secrets/engine-keys, readOnly: true}
{{- end }}
{{- with .Values.volumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "millrace.volumes" -}}
- name: config
  configMap: {name: {{ include "millrace.fullname" . }}}
- name: tmp
  emptyDir: {}
{{- with .Values.secrets }}
{{- if .engineKeys.name }}
- name: engine-keys
  secret: {secretName: {{ .engineKeys.name | quote }}}
{{- end }}
{{- end }}
{{- with .Values.volumes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Whether the API's certificate is signed by an authority that the secret has. */ -}}
{{- define "millrace.serverCA" -}}
{{- with .Values.secrets.tls }}{{ if and .name .ca }}true{{ end }}{{ end }}
{{- end }}

{{- /* Where a pod may stand. */ -}}
{{- define "millrace.placement" -}}
{{- with .nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .topologySpreadConstraints }}
topologySpreadConstraints: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{- /* A probe of the API: over https where it has a certificate, by its own command where it asks for one. */ -}}
{{- define "millrace.serverProbe" -}}
{{- if .root.Values.secrets.tls.clientCA }}
exec:
  command: [/millrace, health, server{{ if .live }}, --live{{ end }}, --cert-file, /run/secrets/tls/tls.crt, --key-file,
    /run/secrets/tls/tls.key]
{{- else }}
httpGet:
  path: {{ if .live }}/healthz{{ else }}/readyz{{ end }}
  port: api
  scheme: {{ if .root.Values.secrets.tls.name }}HTTPS{{ else }}HTTP{{ end }}
{{- end }}
timeoutSeconds: 5
{{- end }}
