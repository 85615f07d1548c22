{{- /* What ration-gpu-volumes and ration-gpu-privileges have in common: new pods, new debug containers, and the templates of
pods where they are made or changed. Containers and volumes of a pod never change otherwise. */}}
{{- define "ration.gpuPods.match" -}}
matchConstraints:
  resourceRules:
  - {apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}
  - {apiGroups: [""], apiVersions: [v1], resources: [pods/ephemeralcontainers], operations: [UPDATE]}
  - {apiGroups: [""], apiVersions: [v1], resources: [podtemplates, replicationcontrollers], operations: [CREATE, UPDATE]}
  - {apiGroups: [apps], apiVersions: [v1], resources: [deployments, statefulsets, daemonsets, replicasets], operations: [CREATE, UPDATE]}
  - {apiGroups: [batch], apiVersions: [v1], resources: [jobs, cronjobs], operations: [CREATE, UPDATE]}
matchConditions:
# What is older than this policy must stay scalable, patchable and deletable. But a template that changes, in whatever, has
# to be right: its new pods would be refused, and a StatefulSet or DaemonSet would first have deleted the old ones.
- name: new-or-changed
  expression: >-
    request.operation == 'CREATE' || request.resource.resource == 'pods' ||
    (!has(object.metadata.deletionTimestamp) &&
    (object.kind == 'PodTemplate' ? object.template != oldObject.template :
    object.kind == 'CronJob' ? object.spec.jobTemplate.spec.template != oldObject.spec.jobTemplate.spec.template :
    object.spec.template != oldObject.spec.template))
# Most pods end here, GPU pods too, by what each policy asks of all their containers first: the API server makes a copy of the
# object for each step of a policy (its conditions, validations, audit annotations, messages), which is nearly all that a
# policy costs. Each policy adds its own end, which may leave out nothing that a validation of it would refuse.
- name: asks-for-gpus-and-more
  expression: >-
    [object.kind == 'Pod' ? object : object.kind == 'PodTemplate' ? object.template :
    object.kind == 'CronJob' ? object.spec.jobTemplate.spec.template : object.spec.template].exists(p,
    [p.spec.containers + (has(p.spec.initContainers) ? p.spec.initContainers : [])].exists(all,
    all.exists(c, has(c.resources) &&
    (has(c.resources.limits) && 'aliyun.com/gpu-mem' in c.resources.limits ||
    has(c.resources.requests) && 'aliyun.com/gpu-mem' in c.resources.requests)) &&
    [all + (has(p.spec.ephemeralContainers) ? p.spec.ephemeralContainers : [])].exists(every,
{{- end }}

{{- define "ration.gpuPods.variables" -}}
- name: spec
  expression: >-
    object.kind == 'Pod' ? object.spec :
    object.kind == 'PodTemplate' ? object.template.spec :
    object.kind == 'CronJob' ? object.spec.jobTemplate.spec.template.spec : object.spec.template.spec
- name: containers
  expression: >-
    (has(variables.spec.containers) ? variables.spec.containers : []) +
    (has(variables.spec.initContainers) ? variables.spec.initContainers : [])
- name: asking
  expression: >-
    variables.containers.filter(c, has(c.resources) &&
    (has(c.resources.limits) && 'aliyun.com/gpu-mem' in c.resources.limits ||
    has(c.resources.requests) && 'aliyun.com/gpu-mem' in c.resources.requests))
- name: debugging    # the field is absent where there is no subresource
  expression: has(request.subResource) && request.subResource == 'ephemeralcontainers'
- name: debug    # debug containers that are new
  expression: >-
    !variables.debugging || !has(variables.spec.ephemeralContainers) ? [] :
    variables.spec.ephemeralContainers.filter(c, !has(oldObject.spec.ephemeralContainers) ||
    !oldObject.spec.ephemeralContainers.exists(o, o.name == c.name))
{{- end }}
