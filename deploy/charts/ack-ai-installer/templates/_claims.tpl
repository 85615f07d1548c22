{{- /* Whether the nodes of the mode dra are served: "yes" or empty. resource.k8s.io/v1 is served from Kubernetes 1.34. */}}
{{- define "ration.claims" -}}
{{- $enabled := toString .Values.claims.enabled }}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (.Capabilities.APIVersions.Has "resource.k8s.io/v1/DeviceClass")) }}yes{{ end }}
{{- end }}
