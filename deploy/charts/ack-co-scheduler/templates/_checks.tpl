{{- /* What values.schema.json cannot say so that a person knows what to do: each wrong value in a sentence, all of them at
once. The schema has types and names, this has ranges and what does not go together. The programs check again. */}}
{{- define "ration.scheduler.checks" -}}
{{- $wrong := list }}
{{- $v := .Values }}
{{- if not (has (toString $v.jobMixing) (list "forbid" "allow")) }}
{{- $wrong = append $wrong (printf "jobMixing: %v is not valid: it must be forbid or allow (pods with and without gpu-core.percentage on one core_mem node)" $v.jobMixing) }}
{{- end }}
{{- if not (has (toString $v.nodeOrder) (list "balanced" "fullest")) }}
{{- $wrong = append $wrong (printf "nodeOrder: invalid value %v; must be balanced or fullest (which node with room comes first)" $v.nodeOrder) }}
{{- end }}
{{- if not (and (regexMatch "^[0-9]{1,4}$" (toString $v.maxPodsPerGPU)) (le (int $v.maxPodsPerGPU) 1000)) }}
{{- $wrong = append $wrong (printf "maxPodsPerGPU: %v is not valid: it must be a number from 1 to 1000, or 0 for the default (20, and 16 where the memory unit is under 1GiB)" $v.maxPodsPerGPU) }}
{{- end }}
{{- if not (and (regexMatch "^[1-9][0-9]{0,4}$" (toString $v.gangTimeoutSeconds)) (le (int $v.gangTimeoutSeconds) 86400)) }}
{{- $wrong = append $wrong (printf "gangTimeoutSeconds: %v is not valid: it must be a number from 1 to 86400" $v.gangTimeoutSeconds) }}
{{- end }}
{{- if not (and (regexMatch "^[0-9]{1,5}$" (toString $v.gangKeepAfterSeconds)) (le (int $v.gangKeepAfterSeconds) 86400)) }}
{{- $wrong = append $wrong (printf "gangKeepAfterSeconds: %v is not valid: it must be a number from 0 to 86400" $v.gangKeepAfterSeconds) }}
{{- end }}
{{- if not (and (regexMatch "^[0-9]{1,6}$" (toString $v.bestNodes)) (le (int $v.bestNodes) 100000)) }}
{{- $wrong = append $wrong (printf "bestNodes: %v is not valid: it must be a number from 1 to 100000, or 0 for all nodes that fit" $v.bestNodes) }}
{{- end }}
{{- if not (regexMatch "^[1-9][0-9]?$" (toString $v.replicas)) }}
{{- $wrong = append $wrong (printf "replicas: %v is not valid: it must be a number from 1 to 99; 2 or more go on when one fails" $v.replicas) }}
{{- end }}
{{- if not (has (toString $v.logLevel) (list "error" "warning" "info" "debug")) }}
{{- $wrong = append $wrong (printf "logLevel: %v is not valid: it must be error, warning, info or debug" $v.logLevel) }}
{{- end }}
{{- $listen := toString $v.metrics.listen }}
{{- if $listen }}
{{- if not (include "ration.isListen" $listen) }}
{{- $wrong = append $wrong (printf "metrics.listen: %q is not valid: it must be an IPv4 address with a port, e.g. 0.0.0.0:39997, or empty" $listen) }}
{{- else if has (regexFind "[0-9]+$" $listen) (list "39998" "39999") }}
{{- $wrong = append $wrong (printf "metrics.listen: %s: 39998 and 39999 are the pod's own ports: take another, e.g. 39997" $listen) }}
{{- end }}
{{- end }}
{{- $names := list }}
{{- range $v.profiles }}{{ $names = append $names .schedulerName }}{{ end }}
{{- if not (has "ack-co-scheduler" $names) }}
{{- $wrong = append $wrong (printf "profiles: one of them must have the schedulerName ack-co-scheduler, which pods of ration name; here are %s" (toJson $names)) }}
{{- end }}
{{- if has "default-scheduler" $names }}
{{- $wrong = append $wrong "profiles: default-scheduler is the cluster's own scheduler: two of one name would place the same pods twice" }}
{{- end }}
{{- if ne (len ($names | uniq)) (len $names) }}
{{- $wrong = append $wrong (printf "profiles: each needs a schedulerName of its own; here are %s" (toJson $names)) }}
{{- end }}
{{- if and $v.defaultScheduler $v.metrics.serviceMonitor.enabled }}
{{- $wrong = append $wrong "metrics.serviceMonitor.enabled: with defaultScheduler there are no pods of this chart to be read" }}
{{- end }}
{{- $wrong = concat $wrong (include "ration.checks.image" (dict "root" . "name" "image" "image" $v.image "ours" "ration-scheduler") | fromJsonArray) }}
{{- $wrong = concat $wrong (include "ration.checks.image" (dict "root" . "name" "kubeScheduler" "image" $v.kubeScheduler) | fromJsonArray) }}
{{- $wrong = concat $wrong (include "ration.checks.podLabels" (dict "labels" $v.podLabels "own" "app") | fromJsonArray) }}
{{- $wrong = concat $wrong (include "ration.checks.scraped" (dict "listen" $listen "values" $v "example" "0.0.0.0:39997") | fromJsonArray) }}
{{- $wrong = concat $wrong (include "ration.checks.webhook" . | fromJsonArray) }}
{{- if $wrong }}{{ fail (join "\n" $wrong) }}{{ end }}
{{- end }}
