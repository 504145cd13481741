{{- /* The image reference, by digest if one is set. */ -}}
{{- define "understudy.image" -}}
{{- $tag := .Values.image.tag | default .Chart.AppVersion -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest | quote -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository $tag | quote -}}
{{- end -}}
{{- end -}}

{{- /* Fail if a configuration key needs a permission that is not enabled. Otherwise the proxy would
      start, but some or all requests would fail. */ -}}
{{- define "understudy.check" -}}
{{- $authentication := .Values.config.authentication | default dict -}}
{{- range $section := list "clientCertificate" "frontProxy" -}}
{{- $from := dig $section "fromCluster" false $authentication -}}
{{- if and $from (not $.Values.clusterCas) -}}
{{- fail (printf "config.authentication.%s.fromCluster needs clusterCas: true" $section) -}}
{{- end -}}
{{- end -}}
{{- if and (dig "impersonation" "boundPodLookup" false .Values.config) (not .Values.boundPods) -}}
{{- fail "config.impersonation.boundPodLookup needs boundPods: true" -}}
{{- end -}}
{{- if and (dig "upstream" "originalUserExtra" false .Values.config) (not .Values.originalUser) (not .Values.allExtras) -}}
{{- fail "config.upstream.originalUserExtra needs originalUser: true" -}}
{{- end -}}
{{- if lt (int .Values.replicas.max) (int .Values.replicas.min) -}}
{{- fail "replicas.max is less than replicas.min" -}}
{{- end -}}
{{- end -}}
