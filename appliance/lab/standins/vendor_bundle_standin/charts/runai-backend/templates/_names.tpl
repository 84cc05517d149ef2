{{- define "standin.image" -}}
{{ required "global.image.registry: NAME:PORT of the registry" .root.Values.global.image.registry }}/run-ai-prod/{{ .name }}-standin:{{ .root.Chart.AppVersion }}
{{- end }}
{{- define "standin.bundled-ingress" -}}
{{- if semverCompare "<2.9.0-0" .Chart.AppVersion }}true{{ end }}
{{- end }}
{{- define "standin.affinity" -}}
nodeAffinity:
{{- if semverCompare "<2.8.0-0" .Chart.AppVersion }}
  requiredDuringSchedulingIgnoredDuringExecution:
    nodeSelectorTerms:
      - matchExpressions: [{key: node-role.kubernetes.io/runai-system, operator: Exists}]
{{- else }}
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions: [{key: node-role.kubernetes.io/runai-system, operator: Exists}]
{{- end }}
{{- end }}
