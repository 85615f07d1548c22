{{- /* The chart ack-ai-installer prints the same for its part `scheduler`. */}}
{{- define "ration.scheduler.notes" -}}
{{- with include "ration.scheduler.elsewhere" . }}
The scheduler of GPU pods belongs to the release {{ . }} already. None was installed beside it, and the values that this
release has for a scheduler have no effect. These are in force:
  helm get values --all -n {{ dir . }} {{ base . }}
{{- else }}
{{- if .Values.defaultScheduler }}
The cluster's own kube-scheduler serves GPU pods, whether they name a scheduler or not, once each control plane node has
ration-scheduler beside it. On each of them, as root:
  ration doctor --scheduler-config --kubeadm --image={{ include "ration.image" (dict "root" . "image" .Values.image "ours" "ration-scheduler" "default" .Chart.AppVersion) }} \
    --arg=--best-nodes={{ int .Values.bestNodes }} --arg=--node-order={{ .Values.nodeOrder }} --arg=--max-pods-per-gpu={{ int .Values.maxPodsPerGPU }} --arg=--job-mixing={{ .Values.jobMixing }} \
    --arg=--gang-timeout={{ int .Values.gangTimeoutSeconds }} --arg=--gang-keep-after={{ int .Values.gangKeepAfterSeconds }} \
    --arg=--log-level={{ .Values.logLevel }}{{ with .Values.metrics.listen }} --arg=--metrics={{ . }}{{ end }} | sh
{{- else }}
ack-co-scheduler serves pods with `schedulerName: ack-co-scheduler`.
{{- if lt (int .Values.replicas) 2 }}
One replica: while it restarts, no GPU pod is placed.
{{- end }}
{{- if not .Values.setSchedulerName }}
setSchedulerName is off: every pod that asks for aliyun.com/gpu-mem must name it itself.
{{- else if include "ration.webhook" . }}
Pods that ask for aliyun.com/gpu-mem and name no scheduler get it by the webhook ration-scheduler-name, which the API server must reach: the
Service {{ .Release.Namespace }}/ration-webhook, port 39994 of the pods.
{{- else if include "ration.mutatingVersion" . }}
Pods that ask for aliyun.com/gpu-mem and name no scheduler get it by the policy ration-scheduler-name.
{{- else }}
This cluster ({{ .Capabilities.KubeVersion.Version }}) does not serve MutatingAdmissionPolicy (v1 from Kubernetes 1.36)
and webhook.enabled is false: every pod that asks for aliyun.com/gpu-mem must name the scheduler itself:
  spec: {schedulerName: ack-co-scheduler}
{{- end }}
{{- end }}
{{- if not (.Capabilities.APIVersions.Has "admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy") }}
This cluster ({{ .Capabilities.KubeVersion.Version }}) does not serve ValidatingAdmissionPolicy v1 (Kubernetes 1.30):
any user who may create or patch pods can forge where a pod is (write a placement that the scheduler did not make).
A pod that asks for more than any node has is created all the same, and its Events say that it cannot be placed.
{{- else }}
{{- if not .Values.policies.placementKeys }}
policies.placementKeys is off: any user who may create or patch pods can forge where a pod is (write a placement that the scheduler did not make).
{{- end }}
{{- if not .Values.policies.requests }}
policies.requests is off: a pod that asks for what no node can give is created; its Events say so.
{{- end }}
{{- end }}
{{- if ne .Release.Namespace "kube-system" }}
Installed into namespace {{ .Release.Namespace }}: the charts ack-ai-installer and ack-co-scheduler have to be in the same one, since each
knows the other's service account by it. kube-system is where the tools and documents of GPU sharing look.
{{- end }}
{{- end }}
{{- end }}
