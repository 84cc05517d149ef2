{{- /* A stateful service on a volume of its own. root, name, claim, size, folder, persistence, secret. */ -}}
{{- define "standin.stateful" -}}
{{- $nfs := .persistence.nfs | default dict }}
{{- if $nfs.server }}
apiVersion: v1
kind: PersistentVolume
metadata: {name: {{ .claim }}, labels: {app: {{ .name }}, standin: "true"}}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: {{ .size }}}
  claimRef: {namespace: {{ .root.Release.Namespace }}, name: {{ .claim }}}
  nfs: {server: {{ $nfs.server | quote }}, path: {{ $nfs.path | quote }}}
---
{{- end }}
apiVersion: v1
kind: PersistentVolumeClaim
metadata:
  name: {{ .claim }}
  namespace: {{ .root.Release.Namespace }}
  labels: {app: {{ .name }}, standin: "true"}
spec:
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: {{ .size }}}}
  {{- if $nfs.server }}
  storageClassName: ""
  volumeName: {{ .claim }}
  {{- else if .persistence.storageClassName }}
  storageClassName: {{ .persistence.storageClassName | quote }}
  {{- end }}
---
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {app: {{ .name }}, standin: "true"}
spec:
  selector: {app: {{ .name }}}
  ports: [{name: store, port: 5432, targetPort: store}]
---
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {app: {{ .name }}, standin: "true"}
spec:
  replicas: 1
  serviceName: {{ .name }}
  selector: {matchLabels: {app: {{ .name }}}}
  template:
    metadata: {labels: {app: {{ .name }}, standin: "true"}}
    spec:
      affinity: {{- include "standin.affinity" .root | nindent 8 }}
      securityContext: {runAsUser: 1001, fsGroup: 1001}
      containers:
        - name: store
          image: {{ include "standin.image" (dict "root" .root "name" "postgresql") }}
          env:
            - {name: STORE_DIR, value: {{ .folder }}/data}
            {{- with .secret }}
            - name: POSTGRES_POSTGRES_PASSWORD
              valueFrom: {secretKeyRef: {name: {{ . }}, key: postgresql-postgres-password}}
            {{- end }}
          ports: [{name: store, containerPort: 5432}]
          readinessProbe: {httpGet: {path: /healthz, port: store}, periodSeconds: 2}
          volumeMounts: [{name: data, mountPath: {{ .folder }}}]
      volumes: [{name: data, persistentVolumeClaim: {claimName: {{ .claim }}}}]
{{- end }}
