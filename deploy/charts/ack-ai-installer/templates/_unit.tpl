{{- /* gpuMemoryUnit in MiB, as the annotation ration.dev/unit says it. */}}
{{- define "ration.unitMiB" -}}
{{- $unit := .Values.gpuMemoryUnit | toString }}
{{- if hasSuffix "GiB" $unit }}{{ trimSuffix "GiB" $unit | int | mul 1024 }}{{ else }}{{ trimSuffix "MiB" $unit | int }}{{ end }}
{{- end }}

{{- /* The release of a scheduler from before the stamp, "NAMESPACE/NAME": its policy ration-placement-keys refuses each pod that has one.
Empty otherwise. A later one's policy has a variable for it. */}}
{{- define "ration.stampRefused" -}}
{{- if .Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy" }}
{{- $keys := lookup "admissionregistration.k8s.io/v1" "ValidatingAdmissionPolicy" "" "ration-placement-keys" }}
{{- if and $keys (not (contains "stamped" (toJson $keys.spec.variables))) }}
{{- include "ration.otherRelease" (dict "root" . "object" $keys) }}
{{- end }}
{{- end }}
{{- end }}
