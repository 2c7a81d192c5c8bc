"""Environment variables that the plugin does not read itself.

    name in COLLECTIVE_VARIABLES  # libhccl reads it, at the first use of a process group
    name in CANN_VARIABLES  # only CANN reads it; a machine with CANN may set it

The doctor does not take these names for misspelt ones. docs/environment.md lists the same names (a test compares them).
"""

COLLECTIVE_VARIABLES = frozenset(
    (
        "HCCL_BUFFSIZE",
        "HCCL_CONNECT_TIMEOUT",
        "HCCL_EXEC_TIMEOUT",
        "HCCL_HOST_SOCKET_PORT_RANGE",
        "HCCL_IF_BASE_PORT",
        "HCCL_IF_IP",
        "HCCL_SOCKET_FAMILY",
        "HCCL_SOCKET_IFNAME",
        "HCCL_WHITELIST_DISABLE",
        "HCCL_WHITELIST_FILE",
        "SOFTNPU_HCCL_HOST",
        "SOFTNPU_HCCL_TRANSPORT",
    )
)
CANN_VARIABLES = frozenset(
    (
        "ASCEND_ALLOW_LINK",
        "ASCEND_AUTOML_PATH",
        "ASCEND_CACHE_PATH",
        "ASCEND_COREDUMP_SIGNAL",
        "ASCEND_DEVICE_ID",
        "ASCEND_DOCKER_RUNTIME",
        "ASCEND_DRIVER_PATH",
        "ASCEND_DUMP_PATH",
        "ASCEND_DUMP_SCENE",
        "ASCEND_ENGINE_PATH",
        "ASCEND_ENHANCE_ENABLE",
        "ASCEND_HOST_LOG_FILE_NUM",
        "ASCEND_INSTALL_PATH",
        "ASCEND_LATEST_INSTALL_PATH",
        "ASCEND_LOG_DEVICE_FLUSH_TIMEOUT",
        "ASCEND_LOG_SAVE_MODE",
        "ASCEND_LOG_SYNC_SAVE",
        "ASCEND_MAX_OP_CACHE_SIZE",
        "ASCEND_MODULE_LOG_LEVEL",
        "ASCEND_REMAIN_CACHE_SIZE_RATIO",
        "ASCEND_RUNTIME_OPTIONS",
        "ASCEND_TENSOR_COMPILER_INCLUDE",
        "ASCEND_VISIBLE_DEVICES",
        "ASCEND_WORK_PATH",
        "HCCL_CONCURRENT_ENABLE",
        "HCCL_DEBUG_CONFIG",
        "HCCL_DFS_CONFIG",
        "HCCL_DIAGNOSE_ENABLE",
        "HCCL_ENTRY_LOG_ENABLE",
        "HCCL_INTER_HCCS_DISABLE",
        "HCCL_INTRA_PCIE_ENABLE",
        "HCCL_INTRA_ROCE_ENABLE",
        "HCCL_LOGIC_SUPERPOD_ID",
        "HCCL_MULTI_QP_THRESHOLD",
        "HCCL_NPU_SOCKET_PORT_RANGE",
        "HCCL_OP_BASE_FFTS_MODE_ENABLE",
        "HCCL_OP_EXPANSION_MODE",
        "HCCL_OP_RETRY_ENABLE",
        "HCCL_OP_RETRY_PARAMS",
        "HCCL_RDMA_PCIE_DIRECT_POST_NOSTRICT",
        "HCCL_RDMA_QPS_PER_CONNECTION",
        "HCCL_RDMA_QP_PORT_CONFIG_PATH",
        "HCCL_RDMA_RETRY_CNT",
        "HCCL_RDMA_TIMEOUT",
    )
)
