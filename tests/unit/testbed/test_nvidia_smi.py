"""The simulated nvidia-smi, executed with sh as a container would."""

import os
import subprocess
from pathlib import Path

import pytest

from testbed import gpu

TEMPLATE = Path(__file__).parents[3] / "testbed/go/deviceplugin/nvidia-smi.sh"
FIRST, SECOND, THIRD = (gpu.uuid("gpu-1", index) for index in range(3))


class Smi:
    """The script as the plugin of gpu-1 writes it; called with the UUIDs of a container and arguments."""

    def __init__(self, folder: Path) -> None:
        table = "\n".join(f"{gpu.uuid('gpu-1', index)} {index} 00000000:1{index}:00.0" for index in range(4))
        text = TEMPLATE.read_text().replace("@DEVICES@", table).replace("@PRODUCT@", gpu.PRODUCT)
        self.script = folder / "nvidia-smi"
        self.script.write_text(text.replace("@DRIVER@", "580-simulated").replace("@MEMORY@", "40960"))
        self.switch = folder / "switch"
        self.switch.mkdir()

    def __call__(
        self, visible: str | None, *arguments: str, environ: str = "/none"
    ) -> subprocess.CompletedProcess[str]:
        environment = {"PATH": os.environ["PATH"], "RAYFLIGHT_SIMULATED_GPU_SWITCH": str(self.switch)}
        environment["RAYFLIGHT_PROC_ENVIRON"] = environ
        if visible is not None:
            environment["NVIDIA_VISIBLE_DEVICES"] = visible
        command = ["sh", str(self.script), *arguments]
        folder = self.switch.parent  # has files in it: a field "*" must not become their names
        return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=folder, check=False)


@pytest.fixture
def smi(tmp_path):
    return Smi(tmp_path)


def test_it_lists_exactly_the_devices_of_its_container(smi):
    assert smi(f"{THIRD},{FIRST}", "-L").stdout.splitlines() == [
        f"GPU 0: {gpu.PRODUCT} (UUID: {THIRD})",
        f"GPU 1: {gpu.PRODUCT} (UUID: {FIRST})",
    ]


def test_it_answers_fields_in_the_order_they_were_asked_for(smi):
    asked = smi(SECOND, "--query-gpu=memory.total,uuid,index,name,pci.bus_id,mig.mode.current", "--format=csv,noheader")
    assert asked.stdout == f"40960 MiB, {SECOND}, 0, {gpu.PRODUCT}, 00000000:11:00.0, Disabled\n"


def test_the_header_names_units_and_nounits_takes_them_from_the_values(smi):
    asked = smi(FIRST, "--query-gpu=index,memory.used,utilization.gpu", "--format", "csv, nounits")
    assert asked.stdout == "index, memory.used [MiB], utilization.gpu [%]\n0, 0, 0\n"


def test_every_field_that_checks_ask_for_is_known(smi):
    fields = (
        "index,uuid,name,memory.total,driver_version,pci.bus_id,temperature.gpu,utilization.gpu,memory.used,"
        "ecc.errors.uncorrected.volatile.total,mig.mode.current,serial,count,power.draw,compute_cap,remapped_rows.pending"
    )
    asked = smi(FIRST, f"--query-gpu={fields}", "--format=csv,noheader")
    assert asked.returncode == 0
    assert len(asked.stdout.split(", ")) == len(fields.split(","))


@pytest.mark.parametrize("field", ["temperature", "*", "no.such"])
def test_an_unknown_field_is_refused_by_name(smi, field):
    asked = smi(FIRST, f"--query-gpu=index,{field}", "--format=csv")
    assert (asked.returncode, asked.stderr) == (2, f'Field "{field}" is not a valid field to query.\n')


def test_an_unknown_option_is_refused_instead_of_ignored(smi):
    assert smi(FIRST, "-x", "-q").returncode == 2


def test_a_container_without_devices_sees_none(smi):
    asked = smi("", "-L")
    assert (asked.returncode, asked.stderr) == (6, "No devices were found\n")


def test_a_foreign_uuid_is_not_a_device(smi):
    assert smi(f"GPU-of-another-node,{FIRST}", "-L").stdout.splitlines() == [f"GPU 1: {gpu.PRODUCT} (UUID: {FIRST})"]


def test_a_cleared_environment_falls_back_to_the_first_process_of_the_container(smi, tmp_path):
    environ = tmp_path / "environ"
    environ.write_bytes(f"PATH=/bin\0NVIDIA_VISIBLE_DEVICES={SECOND}\0".encode())
    assert SECOND in smi(None, "-L", environ=str(environ)).stdout


@pytest.mark.parametrize("chosen", ["1", SECOND, "00000000:11:00.0"])
def test_one_device_can_be_chosen(smi, chosen):
    asked = smi(f"{FIRST},{SECOND}", "-i", chosen, "--query-gpu=uuid", "--format=csv,noheader")
    assert asked.stdout == f"{SECOND}\n"


def test_a_sick_device_shows_the_numbers_of_its_switch_and_its_neighbour_does_not(smi):
    (smi.switch / SECOND).write_text("ecc.errors.uncorrected.volatile.total=7\ntemperature.gpu=91\n")
    asked = smi(
        f"{FIRST},{SECOND}",
        "--query-gpu=ecc.errors.uncorrected.volatile.total,temperature.gpu,memory.used",
        "--format=csv,noheader",
    )
    assert asked.stdout == "0, 35, 0 MiB\n7, 91, 0 MiB\n"


def test_the_overview_says_simulated(smi):
    shown = smi(FIRST).stdout
    assert "SIMULATED" in shown
    assert FIRST in shown
    assert len({len(line) for line in shown.splitlines()}) == 1


def test_what_a_gpu_is_told_to_tell_stands_for_the_truth_in_every_answer(smi):
    told = smi.switch / "told"
    told.mkdir()
    (told / SECOND).write_text(f"uuid={FIRST}\nname=SIMULATED NVIDIA H100\n")
    assert smi(SECOND, "-L").stdout == f"GPU 0: SIMULATED NVIDIA H100 (UUID: {FIRST})\n"
    asked = smi(SECOND, "--query-gpu=uuid,name,memory.total", "--format=csv,noheader,nounits")
    assert asked.stdout == f"{FIRST}, SIMULATED NVIDIA H100, 40960\n"
    assert smi(THIRD, "-L").stdout == f"GPU 0: {gpu.PRODUCT} (UUID: {THIRD})\n"
