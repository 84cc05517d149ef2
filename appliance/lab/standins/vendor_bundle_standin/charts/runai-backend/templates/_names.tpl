{{- /* Up to 2.11 the vendor's values name domain and registry elsewhere than from 2.12 on. */ -}}
{{- define "standin.domain" -}}
{{- if .Values.deployment }}{{ .Values.deployment.domain }}{{ else }}{{ required "global.domain: the backend's name" .Values.global.domain }}{{ end }}
{{- end }}
{{- define "standin.registry" -}}
{{- if .Values.backend }}
{{- required "backend.privateRegistryAddress: NAME:PORT of the registry" .Values.backend.privateRegistryAddress }}
{{- else }}
{{- required "global.image.registry: NAME:PORT of the registry" .Values.global.image.registry }}
{{- end }}
{{- end }}
{{- define "standin.image" -}}
{{ include "standin.registry" .root }}/run-ai-prod/{{ .name }}-standin:{{ .root.Chart.AppVersion }}
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
