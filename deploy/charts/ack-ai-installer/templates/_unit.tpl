{{- /* gpuMemoryUnit in MiB, as the annotation ration.dev/unit says it. */}}
{{- define "ration.unitMiB" -}}
{{- $unit := .Values.gpuMemoryUnit | toString }}
{{- if hasSuffix "GiB" $unit }}{{ trimSuffix "GiB" $unit | int | mul 1024 }}{{ else }}{{ trimSuffix "MiB" $unit | int }}{{ end }}
{{- end }}
