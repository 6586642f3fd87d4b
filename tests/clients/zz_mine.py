import time, os
from sim import machine, simulation, directory
def test_story(simulation):
    assert simulation.perchcli("/c0", "add", "vd", "r5", "drives=0:0-3").returncode == 0
    simulation.script("speed 5000x")
    simulation.wait_until(lambda s: s["vds"][0]["consistent"], "consistency")
    simulation.script("pull 2")
    simulation.wait_until(lambda s: s["vds"][0]["state"] == "Degraded", "degraded")
def test_keep(machine, directory):
    d = machine("--sim-dir", os.path.join(directory, "keep"), "--sim-drives=4x480G,2x3.2T:4k")
    assert d.perchcli("/c0", "add", "vd", "r1", "drives=0:0-1").returncode == 0
    d.end()
    d.start()
    s = d.wait_until(lambda s: s["vds"] and s["vds"][0]["kernel_device"], "running")
    d.kill()
    d.start()
    s = d.wait_until(lambda s: s["vds"] and s["vds"][0]["kernel_device"], "running")
    d.script("reboot")
    d.wait_until(lambda s: s["vds"] and s["vds"][0]["kernel_device"], "running")
    d.script("power-cut")
    d.wait_until(lambda s: s["vds"] and s["vds"][0]["kernel_device"], "running")
