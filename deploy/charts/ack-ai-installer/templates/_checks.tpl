{{- /* What values.schema.json cannot say so that a person knows what to do: each wrong value in a sentence, all of them at
once. The schema has types and names, this has ranges and what does not go together. The programs check again. */}}
{{- define "ration.agent.checks" -}}
{{- $wrong := list }}
{{- $v := .Values }}
{{- if not (regexMatch "^[0-5]$" (toString $v.policy)) }}
{{- $wrong = append $wrong (printf "policy: %v is not valid: it must be 0 (fair-share), 1 (preemptive), 2 (weight-preemptive), 3 (fixed), 4 (soft) or 5 (native)" $v.policy) }}
{{- end }}
{{- if not (has (toString $v.gpuMemoryUnit) (list "1GiB" "512MiB" "256MiB" "128MiB")) }}
{{- $wrong = append $wrong (printf "gpuMemoryUnit: %v is not valid: gpu-mem counts in 1GiB, 512MiB, 256MiB or 128MiB" $v.gpuMemoryUnit) }}
{{- end }}
{{- if not (has (toString $v.onBypass) (list "report" "evict")) }}
{{- $wrong = append $wrong (printf "onBypass: %v is not valid: it must be report (an Event and a metric) or evict (the pod as well)" $v.onBypass) }}
{{- end }}
{{- if not (has (toString $v.unknownFunctions) (list "serve" "refuse")) }}
{{- $wrong = append $wrong (printf "unknownFunctions: invalid value %v; must be serve (an Event and a metric) or refuse (no new GPU pods on the node as well)" $v.unknownFunctions) }}
{{- end }}
{{- if not (and (regexMatch "^[0-9]{1,4}$" (toString $v.maxPodsPerGPU)) (le (int $v.maxPodsPerGPU) 1000)) }}
{{- $wrong = append $wrong (printf "maxPodsPerGPU: %v is not valid: it must be a number from 1 to 1000, or 0 for the default (20, and 16 where gpuMemoryUnit is under 1GiB)" $v.maxPodsPerGPU) }}
{{- end }}
{{- if not (has (toString $v.logLevel) (list "error" "warning" "info" "debug")) }}
{{- $wrong = append $wrong (printf "logLevel: %v is not valid: it must be error, warning, info or debug" $v.logLevel) }}
{{- end }}
{{- $listen := toString $v.metrics.listen }}
{{- if not (or (eq $listen "none") (include "ration.isListen" $listen)) }}
{{- $wrong = append $wrong (printf "metrics.listen: %q is not valid: it must be an IPv4 address with a port, e.g. 0.0.0.0:39996, or none" $listen) }}
{{- else if hasSuffix ":39995" $listen }}
{{- $wrong = append $wrong (printf "metrics.listen: %s: 39995 is the pod's own port for probes: take another, e.g. 39996" $listen) }}
{{- end }}
{{- range $name := list "driverRoot" "criSocket" "cdiDir" "kubeletDir" }}
{{- $path := toString (get $v $name) }}
{{- if or (not (regexMatch "^/[A-Za-z0-9._/@+-]*$" $path)) (regexMatch "(^|/)[.][.](/|$)" $path) }}
{{- $wrong = append $wrong (printf "%s: %q is not valid: it must be an absolute path on the nodes, without .., blanks and quotes" $name $path) }}
{{- end }}
{{- end }}
{{- range $name, $folder := dict "criSocket" (dir $v.criSocket) "cdiDir" (clean $v.cdiDir) "kubeletDir" (clean $v.kubeletDir) }}
{{- if eq $folder "/" }}
{{- $wrong = append $wrong (printf "%s: %q is not valid: its folder is mounted into the agent, and / cannot be" $name (get $v $name)) }}
{{- end }}
{{- end }}
{{- $wrong = concat $wrong (include "ration.checks.image" (dict "root" . "name" "image" "image" $v.image "ours" "ration-agent") | fromJsonArray) }}
{{- $wrong = concat $wrong (include "ration.checks.podLabels" (dict "labels" $v.podLabels "own" "name") | fromJsonArray) }}
{{- $wrong = concat $wrong (include "ration.checks.scraped" (dict "listen" $listen "values" $v "example" "0.0.0.0:39996") | fromJsonArray) }}
{{- $wrong = concat $wrong (include "ration.checks.webhook" . | fromJsonArray) }}
{{- if not (has (toString $v.claims.privileged) (list "refuse" "prepare")) }}
{{- $wrong = append $wrong (printf "claims.privileged: invalid value %v; must be refuse (the pod does not start) or prepare" $v.claims.privileged) }}
{{- end }}
{{- if not (has (toString $v.claims.enabled) (list "auto" "true" "false")) }}
{{- $wrong = append $wrong (printf "claims.enabled: invalid value %v; must be auto, true or false" $v.claims.enabled) }}
{{- end }}
{{- if and $v.scheduler.enabled (include "ration.scheduler.here" .Subcharts.scheduler) }}
{{- if ne (int $v.maxPodsPerGPU) (int $v.scheduler.maxPodsPerGPU) }}
{{- $wrong = append $wrong (printf "maxPodsPerGPU: %v here and %v in scheduler.maxPodsPerGPU: GPUs would be shared among another number of containers than the scheduler places: set both to the same number" $v.maxPodsPerGPU $v.scheduler.maxPodsPerGPU) }}
{{- end }}
{{- if ne (toString $v.webhook.enabled) (toString $v.scheduler.webhook.enabled) }}
{{- $wrong = append $wrong (printf "webhook.enabled: %v here and %v in scheduler.webhook.enabled: set both to the same" $v.webhook.enabled $v.scheduler.webhook.enabled) }}
{{- end }}
{{- end }}
{{- if $wrong }}{{ fail (join "\n" $wrong) }}{{ end }}
{{- end }}
