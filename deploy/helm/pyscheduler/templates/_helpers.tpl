{{/* Name of the objects of the release. 45 characters leave room for the name of a shard. */}}
{{- define "pyscheduler.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "pyscheduler" .Release.Name -}}
{{- .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-pyscheduler" .Release.Name | trunc 45 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pyscheduler.image" -}}
{{- with .Values.image -}}
{{- .repository -}}
{{- if .digest -}}@{{ .digest }}{{- else -}}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* Labels of all objects; takes the release and a name. The first one alone selects pods. */}}
{{- define "pyscheduler.labels" -}}
app.kubernetes.io/name: {{ .name }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
helm.sh/chart: {{ printf "%s-%s" .root.Chart.Name .root.Chart.Version }}
{{- end -}}

{{/*
The schedulers of this release as a list in JSON, each with its name, account, configuration, feature gates and rules:
one, or one for each shard.
*/}}
{{- define "pyscheduler.instances" -}}
{{- $own := dict "config" .Values.config "featureGates" "" "rbac" (dict "clusterRules" list "namespaceRules" dict) -}}
{{- if .Values.config -}}
  {{- if and .Values.rbac.create (not .Values.rbac.clusterRules) -}}
    {{- fail "config is set, but not rbac.clusterRules; pyscheduler config --rbac --config FILE -o helm-values prints both for --values" -}}
  {{- end -}}
{{- else -}}
  {{- $own = .Files.Get (printf "files/profiles/%s.yaml" .Values.profile) | fromYaml -}}
{{- end -}}
{{- $clusterRules := concat $own.rbac.clusterRules .Values.rbac.clusterRules -}}
{{- $gates := coalesce .Values.featureGates $own.featureGates -}}
{{- $fullname := include "pyscheduler.fullname" . -}}
{{- if not (or .Values.serviceAccount.create .Values.serviceAccount.name) -}}
  {{- fail "serviceAccount.create is false; give serviceAccount.name the name of an account that exists" -}}
{{- end -}}
{{- $instances := list -}}
{{- $names := list -}}
{{- range $shard := .Values.shards | default (list dict) -}}
  {{- $name := empty $shard.name | ternary $fullname (printf "%s-%v" $fullname $shard.name) -}}
  {{- if has $name $names -}}
    {{- fail (printf "two shards have the name %s" $shard.name) -}}
  {{- end -}}
  {{- $names = append $names $name -}}
  {{- $account := $.Values.serviceAccount.name -}}
  {{- if not $account -}}
    {{- $account = $name -}}
  {{- else if $shard.name -}}
    {{- $account = printf "%s-%s" $account $shard.name -}}
  {{- end -}}
  {{- $leases := dict "apiGroups" (list "coordination.k8s.io") "resources" (list "leases") -}}
  {{- $lease := list
      (merge (dict "verbs" (list "create")) $leases)
      (merge (dict "resourceNames" (list $name) "verbs" (list "get" "update")) $leases) -}}
  {{- $namespaceRules := deepCopy $own.rbac.namespaceRules -}}
  {{- range $rules := list $.Values.rbac.namespaceRules (dict $.Release.Namespace $lease) -}}
    {{- range $namespace, $more := $rules -}}
      {{- $_ := set $namespaceRules $namespace (concat (get $namespaceRules $namespace | default list) $more) -}}
    {{- end -}}
  {{- end -}}
  {{- $config := $own.config -}}
  {{- if $shard.name -}}
    {{- $config = include "pyscheduler.sharded" (dict "config" $config "shard" $shard) -}}
  {{- end -}}
  {{- $instances = append $instances (dict
      "name" $name "account" $account "config" $config "featureGates" $gates
      "clusterRules" $clusterRules "namespaceRules" $namespaceRules) -}}
{{- end -}}
{{- toJson $instances -}}
{{- end -}}

{{/* The configuration of a shard: each profile uses the shard's nodes only. */}}
{{- define "pyscheduler.sharded" -}}
{{- $shard := .shard -}}
{{- $config := fromYaml .config -}}
{{- if not $config.profiles -}}
  {{- fail "shards need a configuration with profiles; pyscheduler config --config FILE prints one" -}}
{{- end -}}
{{- range $profile := $config.profiles -}}
  {{- $entries := $profile.pluginConfig | default list -}}
  {{- $isBatch := false -}}
  {{- range $entries -}}{{- if eq .name "Batch" -}}{{- $isBatch = true -}}{{- end -}}{{- end -}}
  {{- $plugin := $isBatch | ternary "Batch" "NodeAffinity" -}}
  {{- $args := dict -}}
  {{- $others := list -}}
  {{- range $entries -}}
    {{- if eq .name $plugin -}}{{- $args = .args | default dict -}}{{- else -}}{{- $others = append $others . -}}{{- end -}}
  {{- end -}}
  {{- if $isBatch -}}
    {{- if ne ($args.preset | default "kai") "kai" -}}
      {{- fail (printf "shards of the preset %s: only KAI has node pools; install the chart once for each scheduler instead" $args.preset) -}}
    {{- end -}}
    {{- if ne (len $shard.nodeSelector) 1 -}}
      {{- fail (printf "shard %s: nodeSelector must have one label, which is the node pool" $shard.name) -}}
    {{- end -}}
    {{- range $key, $value := $shard.nodeSelector -}}
      {{- $_ := set $args "nodePoolLabel" $key -}}
      {{- $_ := set $args "nodePool" $value -}}
    {{- end -}}
  {{- else -}}
    {{- if $args.addedAffinity -}}
      {{- fail (printf "shard %s: the profile has an addedAffinity of its own; write the nodes of the shard there, and install the chart without shards" $shard.name) -}}
    {{- end -}}
    {{- $terms := list -}}
    {{- range $key, $value := $shard.nodeSelector -}}
      {{- if $value -}}
        {{- $terms = append $terms (dict "key" $key "operator" "In" "values" (list $value)) -}}
      {{- else -}}
        {{- $terms = append $terms (dict "key" $key "operator" "DoesNotExist") -}}
      {{- end -}}
    {{- end -}}
    {{- $required := dict "nodeSelectorTerms" (list (dict "matchExpressions" $terms)) -}}
    {{- $_ := set $args "addedAffinity" (dict "requiredDuringSchedulingIgnoredDuringExecution" $required) -}}
    {{- $_ := set $profile "schedulerName" (printf "%s-%s" ($profile.schedulerName | default "default-scheduler") $shard.name) -}}
  {{- end -}}
  {{- $_ := set $profile "pluginConfig" (append $others (dict "name" $plugin "args" $args)) -}}
{{- end -}}
{{- toYaml $config -}}
{{- end -}}
