{{- /* Alike in both charts (tests/lint), which may be parts of one chart: there a name is one for all. */}}
{{- define "ration.isListen" -}}
{{- $byte := "(25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])" }}
{{- $port := int (regexFind "[0-9]+$" .) }}
{{- if and (regexMatch (printf "^%s([.]%s){3}:[0-9]{1,5}$" $byte $byte) .) (gt $port 0) (le $port 65535) }}yes{{ end }}
{{- end }}

{{- /* .ours: the image's name in the registry global.imageRegistry. */}}
{{- define "ration.checks.image" -}}
{{- $wrong := list }}
{{- if and .image.digest (not (regexMatch "^sha256:[0-9a-f]{64}$" .image.digest)) }}
{{- $wrong = append $wrong (printf "%s.digest: %q is not valid: it must be sha256: and 64 hexadecimal digits" .name .image.digest) }}
{{- end }}
{{- if not (include "ration.repository" .) }}
{{- if .ours }}
{{- $wrong = append $wrong (printf "%s.repository and global.imageRegistry are empty: set the registry that your nodes reach, e.g. --set global.imageRegistry=registry.example.com/gpu, and the image is registry.example.com/gpu/%s" .name .ours) }}
{{- else }}
{{- $wrong = append $wrong (printf "%s.repository is empty: set it to the name of the image in a registry that your nodes reach, e.g. --set %s.repository=registry.example.com/IMAGE" .name .name) }}
{{- end }}
{{- end }}
{{- toJson $wrong }}
{{- end }}

{{- /* The label that selects our pods is ours. */}}
{{- define "ration.checks.podLabels" -}}
{{- $wrong := list }}
{{- if hasKey (.labels | default dict) .own }}
{{- $wrong = append $wrong (printf "podLabels.%s: this label selects the pods, and cannot be another" .own) }}
{{- end }}
{{- toJson $wrong }}
{{- end }}

{{- /* The labels of an object as one line of JSON: those that Kubernetes and helm recommend for each object, then the maps
that follow the chart's context in the list, of which the last one wins. Selectors have none of them: they cannot be changed,
and these labels change with each version. A chart that is part of another one may have another name there. */}}
{{- define "ration.labels" -}}
{{- $root := first . }}
{{- $chart := ternary "ack-ai-installer" "ack-co-scheduler" (eq $root.Chart.Name "ack-ai-installer") }}
{{- $labels := dict
  "app.kubernetes.io/name" $chart
  "app.kubernetes.io/instance" $root.Release.Name
  "app.kubernetes.io/version" $root.Chart.AppVersion
  "app.kubernetes.io/component" (ternary "agent" "scheduler" (eq $chart "ack-ai-installer"))
  "app.kubernetes.io/part-of" "ration"
  "app.kubernetes.io/managed-by" $root.Release.Service
  "helm.sh/chart" (printf "%s-%s" $chart $root.Chart.Version | replace "+" "_") }}
{{- range rest . }}{{ $labels = mergeOverwrite $labels (. | default dict) }}{{ end }}
{{- toJson $labels }}
{{- end }}

{{- /* An image's name without its tag. Of our own (.ours) it need not be given, where their registry is. */}}
{{- define "ration.repository" -}}
{{- $registry := (.root.Values.global | default dict).imageRegistry }}
{{- if .image.repository }}{{ .image.repository }}{{ else if and .ours $registry }}{{ trimSuffix "/" $registry }}/{{ .ours }}{{ end }}
{{- end }}

{{- /* The reference of an image, exact where a digest is given. */}}
{{- define "ration.image" -}}
{{- include "ration.repository" . }}{{ if .image.digest }}@{{ .image.digest }}{{ else }}:{{ .image.tag | default .default }}{{ end }}
{{- end }}

{{- /* Ports on which an API server is reached, as JSON: those of the value, else the cluster's own, else none. The cluster
says the port behind its Service too, which is the one that most networks look at. */}}
{{- define "ration.apiServerPorts" -}}
{{- $ports := .Values.networkPolicy.apiServerPorts }}
{{- if not $ports }}
{{- range (lookup "discovery.k8s.io/v1" "EndpointSlice" "default" "kubernetes").ports }}{{ $ports = append $ports (int .port) }}{{ end }}
{{- range ((lookup "v1" "Service" "default" "kubernetes").spec | default dict).ports }}{{ $ports = append $ports (int .port) }}{{ end }}
{{- end }}
{{- $ports | uniq | toJson }}
{{- end }}

{{- /* What the chart's NetworkPolicy says after its podSelector. .port: of the metrics, "" where they are not opened. .webhook: not
empty where API servers connect to the pod. API servers are not pods and have no addresses that the chart could know. */}}
{{- define "ration.networkPolicy" -}}
{{- $ports := include "ration.apiServerPorts" .root | fromJsonArray }}
policyTypes: [Ingress{{ if $ports }}, Egress{{ end }}]
{{- if or .port .webhook }}
ingress:
{{- if .webhook }}
- ports:
  - {protocol: TCP, port: webhook}
{{- end }}
{{- if .port }}
- from: {{- toYaml .root.Values.networkPolicy.metricsFrom | nindent 2 }}
  ports:
  - {protocol: TCP, port: {{ .port }}}
{{- end }}
{{- else }}
ingress: []
{{- end }}
{{- if $ports }}
egress:
- ports:    # to any address: an API server's may change, and names no pods
  {{- range $ports }}
  - {protocol: TCP, port: {{ int . }}}
  {{- end }}
{{- end }}
{{- end }}

{{- /* Where Prometheus finds the metrics of our pods, for its operator. .name: of both objects; .label: selects the pods;
.port: where the page is. Our own labels namespace, pod and container name GPU pods: they are kept, not those of the target. */}}
{{- define "ration.serviceMonitor" -}}
apiVersion: v1
kind: Service
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{ include "ration.labels" (list .root .label) }}
spec:
  clusterIP: None
  publishNotReadyAddresses: true    # one that is not ready has most to tell
  selector: {{ toJson .label }}
  ports:
  - {name: metrics, port: {{ .port }}, targetPort: metrics}
---
apiVersion: monitoring.coreos.com/v1
kind: ServiceMonitor
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{ include "ration.labels" (list .root .root.Values.metrics.serviceMonitor.labels) }}
spec:
  selector:
    matchLabels: {{ toJson .label }}
  endpoints:
  - port: metrics
    interval: {{ .root.Values.metrics.serviceMonitor.interval }}
    honorLabels: true
    relabelings:
    - {sourceLabels: [__meta_kubernetes_pod_node_name], targetLabel: node}
{{- end }}

{{- define "ration.prometheusRule" -}}
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: {{ .name }}
  namespace: {{ .root.Release.Namespace }}
  labels: {{ include "ration.labels" (list .root .root.Values.alerts.labels) }}
spec: {{- .root.Files.Get "files/alerts.yaml" | nindent 2 }}
{{- end }}

{{- /* Values that need a page which Prometheus can reach, and are set although Prometheus cannot reach .listen. */}}
{{- define "ration.checks.scraped" -}}
{{- $wrong := list }}
{{- if or (has .listen (list "" "none")) (hasPrefix "127." .listen) }}
{{- range $name, $on := dict "metrics.serviceMonitor.enabled" .values.metrics.serviceMonitor.enabled "alerts.enabled" .values.alerts.enabled }}
{{- if $on }}
{{- $wrong = append $wrong (printf "%s: there are no metrics that Prometheus can reach while metrics.listen is %q: set it to %s" $name $.listen $.example) }}
{{- end }}
{{- end }}
{{- end }}
{{- toJson $wrong }}
{{- end }}

{{- /* The best served version of MutatingAdmissionPolicy (v1 from Kubernetes 1.36; before it, where the API server is told to
serve them, v1beta1 from 1.34 and v1alpha1 from 1.32, with the same fields); empty if the API server serves no version. */}}
{{- define "ration.mutatingVersion" -}}
{{- $best := "" }}
{{- range list "v1alpha1" "v1beta1" "v1" }}
{{- $version := printf "admissionregistration.k8s.io/%s" . }}
{{- if $.Capabilities.APIVersions.Has (printf "%s/MutatingAdmissionPolicy" $version) }}{{ $best = $version }}{{ end }}
{{- end }}
{{- $best }}
{{- end }}

{{- /* Whether the mutating webhook does what the MutatingAdmissionPolicies do elsewhere: "yes" or empty. */}}
{{- define "ration.webhook" -}}
{{- $enabled := toString .Values.webhook.enabled }}
{{- if or (eq $enabled "true") (and (eq $enabled "auto") (not (include "ration.mutatingVersion" .))) }}yes{{ end }}
{{- end }}

{{- /* What the chart's webhook configuration says besides its path and conditions. ration-scheduler answers it, and writes its
caBundle. Ignore: a pod is created also when no replica answers; a GPU pod then says so in its Events. */}}
{{- define "ration.webhookClient" -}}
admissionReviewVersions: [v1]
sideEffects: None
failurePolicy: Ignore
reinvocationPolicy: IfNeeded
timeoutSeconds: 5
clientConfig:
  service: {name: ration-webhook, namespace: {{ .root.Release.Namespace }}, path: {{ .path }}, port: 443}
rules:
- {apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE], scope: Namespaced}
{{- end }}

{{- define "ration.checks.webhook" -}}
{{- $wrong := list }}
{{- if not (has (toString .Values.webhook.enabled) (list "auto" "true" "false")) }}
{{- $wrong = append $wrong (printf "webhook.enabled: invalid value %v; must be auto, true or false" .Values.webhook.enabled) }}
{{- end }}
{{- toJson $wrong }}
{{- end }}

{{- /* The release that an object of the cluster belongs to, "NAMESPACE/NAME", unless it is this one; empty where there is no such
object, and always in helm template, which asks no cluster. */}}
{{- define "ration.otherRelease" -}}
{{- $annotations := (.object.metadata | default dict).annotations | default dict }}
{{- $release := printf "%s/%s" (get $annotations "meta.helm.sh/release-namespace") (get $annotations "meta.helm.sh/release-name") }}
{{- if not (has $release (list "/" (printf "%s/%s" .root.Release.Namespace .root.Release.Name))) }}{{ $release }}{{ end }}
{{- end }}
