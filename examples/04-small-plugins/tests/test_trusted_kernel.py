"""TrustedKernel: the node's report counts."""

from pyscheduler.testing import check_plugin
from small_plugins.trusted_kernel import LEAST, TrustedKernel


async def test_old_kernels_are_refused(pyscheduler_cluster):
    cluster = pyscheduler_cluster
    for name, kernel in (("old", "5.15.0-100-generic"), ("new", "6.8.0-45-generic")):
        cluster.add_node(name, status={"nodeInfo": {"kernelVersion": kernel}})
    framework = cluster.framework(enable=[TrustedKernel])
    assert (await framework.schedule("p", annotations={LEAST: "6.1"})).node == "new"
    refused = await framework.schedule("q", annotations={LEAST: "6.12"})
    assert "2 node(s) had too old a kernel" in refused.message


def test_trusted_kernel_keeps_the_contract():
    check_plugin(TrustedKernel, histories=4)
