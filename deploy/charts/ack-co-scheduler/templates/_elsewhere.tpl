{{- /* The release that has the scheduler already. Two of them would place the same pods twice, so this chart then brings none, and
neither does the chart ack-ai-installer, which has it as its part `scheduler`. */}}
{{- define "ration.scheduler.elsewhere" -}}
{{- include "ration.otherRelease" (dict "root" . "object" (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "ration-scheduler")) }}
{{- end }}

{{- /* "yes" where this chart brings the scheduler: each of its templates is empty otherwise. */}}
{{- define "ration.scheduler.here" -}}
{{- if not (include "ration.scheduler.elsewhere" .) }}yes{{ end }}
{{- end }}
