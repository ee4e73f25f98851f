"""The feature gates that kube-scheduler 1.36 knows, with their defaults and dependencies.

The list includes gates of the kubelet and the API server, so that users can pass one `--feature-gates` value to every
component.

Differs from kube-scheduler: gates in `NOT_IMPLEMENTED` stay off, with a warning, whatever the flag says.

Source: Kubernetes 1.36, `pkg/features`, and the gates of apiserver, apiextensions-apiserver, client-go and
component-base.
"""

from __future__ import annotations

from typing import Final, NamedTuple

__all__ = ["DEPENDENCIES", "GATES", "NOT_IMPLEMENTED", "NO_EFFECT", "Gate"]


class Gate(NamedTuple):
    """A feature gate. A `locked` gate can only be set to its default."""

    default: bool
    #: `ALPHA`, `BETA`, `GA` or `DEPRECATED`.
    stage: str
    locked: bool = False


_TABLE: Final = (
    (
        Gate(False, "ALPHA"),
        """
        APIServingWithRoutine AllowUnsafeMalformedObjectDeletion CBORServingAndStorage CPUManagerPolicyAlphaOptions
        CRIListStreaming CSIVolumeHealth ClientsAllowCBOR ClientsPreferCBOR
        CloudControllerManagerWatchBasedRoutesReconciliation CloudControllerManagerWebhook ContainerStopSignals
        CrossNamespaceVolumeDataSource DRAListTypeAttributes DRANodeAllocatableResources DRAResourcePoolStatus
        DRAWorkloadResourceClaims EventedPLEG GangScheduling GenericWorkload HPAScaleToZero ImageVolumeWithDigest
        InPlacePodVerticalScalingExclusiveCPUs InPlacePodVerticalScalingExclusiveMemory KubeletInUserNamespace
        LoggingAlphaOptions ManifestBasedAdmissionControlConfig MemoryQoS MutablePVNodeAffinity NativeHistograms
        PersistentVolumeClaimUnusedSinceTime PodAndContainerStatsFromCRI PodLevelResourceManagers
        PodLogsQuerySplitStreams PodsAPI QOSReserved ReduceDefaultCrashLoopBackOffDecay RuntimeClassInImageCriApi
        ShardedListAndWatch StorageCapacityScoring StorageVersionAPI TaintTolerationComparisonOperators
        TopologyAwareWorkloadScheduling TopologyManagerPolicyAlphaOptions UserNamespacesHostNetworkSupport
        VolumeLimitScaling WindowsCPUAndMemoryAffinity WorkloadAwarePreemption WorkloadWithJob
        """,
    ),
    (
        Gate(True, "BETA"),
        """
        APIResponseCompression APIServerIdentity AllowParsingUserUIDFromCertAuth AtomicFIFO
        AuthorizePodWebsocketUpgradeCreatePermission CPUManagerPolicyBetaOptions CRDObservedGenerationTracking
        ClearingNominatedNodeNameAfterBinding ClientsAllowCARotation ClientsAllowTLSCacheGC ComponentFlagz
        ComponentStatusz ConstrainedImpersonation ContainerCheckpoint ContainerRestartRules ContextualLogging
        DRAConsumableCapacity DRADeviceBindingConditions DRADeviceTaints DRAExtendedResource DRAPartitionableDevices
        DRAResourceClaimDeviceStatus DRAResourceClaimGranularStatusAuthorization DRASchedulerFilterTimeout
        DeclarativeValidationBeta DeploymentReplicaSetTerminatingReplicas DetectCacheInconsistency EnvFiles
        ExtendWebSocketsToKubelet GracefulNodeShutdown GracefulNodeShutdownBasedOnPodPriority HPAConfigurableTolerance
        HostnameOverride InOrderInformersBatchProcess InPlacePodLevelResourcesVerticalScaling
        InPlacePodVerticalScalingInitContainers KubeletCrashLoopBackOffMax KubeletEnsureSecretPulledImages
        KubeletSeparateDiskGC KubeletServiceAccountTokenForCredentialProviders ListFromCacheSnapshot
        LoggingBetaOptions MatchLabelKeysInPodTopologySpread MatchLabelKeysInPodTopologySpreadSelectorMerge
        MutablePodResourcesForSuspendedJobs MutableSchedulingDirectivesForSuspendedJobs NodeDeclaredFeatures
        NominatedNodeNameForExpectation OpenAPIEnums OpportunisticBatching PLEGOnDemandRelist PodDeletionCost
        PodLevelResources PodReadyToStartContainersCondition PodTopologyLabelsAdmission PortForwardWebsockets
        PreventStaticPodAPIReferences RelaxedServiceNameValidation ReloadKubeletClientCAFile
        ReloadKubeletServerCertificateFile RemoteRequestHeaderUID ResourceHealthStatus ResourceHealthStatusMessage
        RestartAllContainersOnContainerExits RotateKubeletServerCertificate SchedulerAsyncPreemption
        SchedulerPopFromBackoffQ ServiceAccountNodeAudienceRestriction SizeBasedListCostEstimate
        StaleControllerConsistencyDaemonSet StaleControllerConsistencyJob StaleControllerConsistencyReplicaSet
        StaleControllerConsistencyStatefulSet StatefulSetSemanticRevisionComparison StorageVersionHash
        StrictIPCIDRValidation StructuredAuthenticationConfigurationEgressSelector
        StructuredAuthenticationConfigurationJWKSMetrics TokenRequestServiceAccountUIDValidation
        TopologyManagerPolicyBetaOptions TranslateStreamCloseWebsocketRequests UnauthenticatedHTTP2DOSMitigation
        UnknownVersionInteroperabilityProxy UnlockWhileProcessingFIFO WatchCacheInitializationPostStartHook WatchList
        WatchListClient WindowsGracefulNodeShutdown
        """,
    ),
    (
        Gate(False, "BETA"),
        """
        ClusterTrustBundle ClusterTrustBundleProjection ConcurrentWatchObjectDecode CoordinatedLeaderElection
        DRADeviceTaintRules LocalStorageCapacityIsolationFSQuotaMonitoring MaxUnavailableStatefulSet
        PodCertificateRequest SELinuxMount SchedulerAsyncAPICalls StorageVersionMigrator
        """,
    ),
    (
        Gate(True, "GA"),
        """
        AllowServiceExternalIPs CustomCPUCFSQuotaPeriod DRAPrioritizedList InformerResourceVersion
        MutatingAdmissionPolicy
        """,
    ),
    (
        Gate(True, "GA", locked=True),
        """
        APIServerTracing AnonymousAuthConfigurableEndpoints AnyVolumeDataSource AuthorizeNodeWithSelectors
        AuthorizeWithSelectors BtreeWatchCache CPUManagerPolicyOptions CRDValidationRatcheting
        CSIServiceAccountTokenSecrets ConsistentListFromCache CustomResourceFieldSelectors DRAAdminAccess
        DeclarativeValidation DisableAllocatorDualWrite DynamicResourceAllocation ExecProbeTimeout
        ExternalServiceAccountTokenSigner ImageMaximumGCAge ImageVolume InOrderInformers InPlacePodVerticalScaling
        JobBackoffLimitPerIndex JobManagedBy JobPodReplacementPolicy JobSuccessPolicy KubeletCgroupDriverFromCRI
        KubeletFineGrainedAuthz KubeletPSI KubeletPodResourcesDynamicResources KubeletPodResourcesGet KubeletTracing
        LogarithmicScaleDown MatchLabelKeysInPodAffinity MultiCIDRServiceAllocator MutableCSINodeAllocatableCount
        NFTablesProxyMode NodeInclusionPolicyInPodTopologySpread NodeLogQuery NodeSwap OrderedNamespaceDeletion
        PodLifecycleSleepAction PodLifecycleSleepActionAllowZero PodObservedGenerationTracking PodSchedulingReadiness
        PreferSameTrafficDistribution ProcMountType RecoverVolumeExpansionFailure RecursiveReadOnlyMounts
        RelaxedDNSSearchValidation RelaxedEnvironmentVariableValidation ResilientWatchCacheInitialization
        RetryGenerateName SELinuxChangePolicy SELinuxMountReadWriteOncePod SchedulerQueueingHints
        SeparateTaintEvictionController ServiceAccountTokenJTI ServiceAccountTokenNodeBinding
        ServiceAccountTokenNodeBindingValidation ServiceAccountTokenPodNodeInfo SidecarContainers
        StreamingCollectionEncodingToJSON StreamingCollectionEncodingToProtobuf StructuredAuthenticationConfiguration
        SupplementalGroupsPolicy SystemdWatchdog TopologyManagerPolicyOptions UserNamespacesSupport
        VolumeAttributesClass WinDSR WinOverlay
        """,
    ),
    (
        Gate(True, "DEPRECATED"),
        """
        DisableCPUQuotaWithExclusiveCPUs KubeletPodResourcesListUseActivePods ServiceCIDRStatusFieldWiping
        StorageNamespaceIndex
        """,
    ),
    (
        Gate(False, "DEPRECATED"),
        """
        AllowDNSOnlyNodeCSR AllowInsecureKubeletCertificateSigningRequests ChangeContainerStatusOnKubeletRestart
        DeclarativeValidationTakeover KMSv1 KubeletRegistrationGetOnExistsOnly WindowsHostNetwork
        """,
    ),
    (
        Gate(True, "DEPRECATED", locked=True),
        """
        AggregatedDiscoveryRemoveBetaType DisableNodeKubeProxyVersion
        """,
    ),
    (
        Gate(False, "DEPRECATED", locked=True),
        """
        AllowOverwriteTerminationGracePeriodSeconds GitRepoVolumeDriver SeparateCacheWatchRPC
        """,
    ),
)

#: Every gate by name.
GATES: Final[dict[str, Gate]] = {name: gate for gate, names in _TABLE for name in names.split()}

#: Gates that must be enabled for a gate to be enabled, of those that the scheduler reads.
DEPENDENCIES: Final[dict[str, tuple[str, ...]]] = {
    "DRAAdminAccess": ("DynamicResourceAllocation",),
    "DRAConsumableCapacity": ("DynamicResourceAllocation",),
    "DRADeviceBindingConditions": ("DRAResourceClaimDeviceStatus", "DynamicResourceAllocation"),
    "DRADeviceTaintRules": ("DRADeviceTaints",),
    "DRADeviceTaints": ("DynamicResourceAllocation",),
    "DRAExtendedResource": ("DynamicResourceAllocation",),
    "DRAPartitionableDevices": ("DynamicResourceAllocation",),
    "DRAPrioritizedList": ("DynamicResourceAllocation",),
    "DRASchedulerFilterTimeout": ("DynamicResourceAllocation",),
    "GangScheduling": ("GenericWorkload",),
    "InPlacePodLevelResourcesVerticalScaling": (
        "InPlacePodVerticalScaling",
        "NodeDeclaredFeatures",
        "PodLevelResources",
    ),
    "TopologyAwareWorkloadScheduling": ("GenericWorkload",),
    "WorkloadAwarePreemption": ("GangScheduling",),
}

NOT_IMPLEMENTED: Final[dict[str, str]] = {
    "CoordinatedLeaderElection": "instances elect their leader among themselves only",
    "DRAListTypeAttributes": "attributes that are lists are not compared",
    "DRANodeAllocatableResources": "CPU and memory cannot be allocated through claims",
    "DRAWorkloadResourceClaims": "claims cannot be reserved for a PodGroup; name one claim in its pods",
}
"""Gates that stay off, each with what is missing and what to do instead."""

NO_EFFECT: Final[dict[str, tuple[bool, str]]] = {
    "InPlacePodLevelResourcesVerticalScaling": (False, "resizes of pod-level resources always count"),
    "NativeHistograms": (True, "histograms have fixed buckets"),
    "PodLevelResources": (False, "pod-level resources always count"),
}
"""Gates that may be set to a value that changes nothing, with that value and the reason."""
