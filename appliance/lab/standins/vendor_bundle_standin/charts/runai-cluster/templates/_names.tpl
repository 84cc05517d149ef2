{{- define "standin.image" -}}
{{ required "global.image.registry: NAME:PORT of the registry" .root.Values.global.image.registry }}/run-ai-prod/{{ .name }}-standin:{{ .root.Chart.AppVersion }}
{{- end }}
{{- define "standin.affinity" -}}
nodeAffinity:
  preferredDuringSchedulingIgnoredDuringExecution:
    - weight: 100
      preference:
        matchExpressions: [{key: node-role.kubernetes.io/runai-system, operator: Exists}]
{{- end }}
