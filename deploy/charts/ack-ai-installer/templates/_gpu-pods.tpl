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
- name: new-or-changed    # what is older than this policy must stay scalable, patchable and deletable
  expression: >-
    request.operation == 'CREATE' || request.resource.resource == 'pods' ||
    (!has(object.metadata.deletionTimestamp) &&
    (object.kind == 'PodTemplate' ? object.template.spec != oldObject.template.spec :
    object.kind == 'CronJob' ?
    object.spec.jobTemplate.spec.template.spec != oldObject.spec.jobTemplate.spec.template.spec :
    object.spec.template.spec != oldObject.spec.template.spec))
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
