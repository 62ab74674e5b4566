"""How an adapter comes out of a Tinker server's archive. That servers take the data is shown by `make with PEER=skyrl`."""

import io
import json
import tarfile
import tempfile
import unittest
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from millrace import Invalid
from millrace.tinker import adapter


class Archive(unittest.TestCase):
    def setUp(self) -> None:
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = Path(folder.name)

    def service(self, **files: bytes) -> Any:
        """A ServiceClient whose one checkpoint is an archive of these files; a double underscore is a dot."""
        with tarfile.open(self.folder / "archive.tar.gz", "w:gz") as archive:
            for name, data in files.items():
                info = tarfile.TarInfo(name.replace("__", "."))
                info.size = len(data)
                archive.addfile(info, io.BytesIO(data))
        self.rest = mock.Mock()
        told = self.rest.get_checkpoint_archive_url.return_value
        told.result.return_value = SimpleNamespace(url=(self.folder / "archive.tar.gz").as_uri())
        return mock.Mock(create_rest_client=lambda: self.rest)

    def written(self, config: Any) -> Any:
        """The config of an adapter with such a one and two trained modules, as it is after adapter()."""
        header = json.dumps({f"base.layers.{n}.q_proj.lora_{part}.weight": {} for n in range(2) for part in "AB"} |
                            {"base.layers.0.down_proj.lora_A.weight": {}, "__metadata__": {}}).encode()
        service = self.service(adapter_config__json=json.dumps(config).encode(),
                               adapter_model__safetensors=len(header).to_bytes(8, "little") + header + bytes(64))
        into = str(self.folder / "step0")
        self.assertEqual(adapter(service, "tinker://run/sampler_weights/step0", into), into)
        self.rest.get_checkpoint_archive_url.assert_called_once_with("run", "sampler_weights/step0")
        with self.assertRaises(FileExistsError):
            adapter(service, "tinker://run/sampler_weights/step0", into)
        return json.loads(Path(into, "adapter_config.json").read_text())

    def test_is_written_as_it_is(self) -> None:
        config = {"r": 8, "target_modules": ["q_proj"]}
        self.assertEqual(self.written(config), config)

    def test_that_names_no_modules_gets_those_that_it_has(self) -> None:
        self.assertEqual(self.written({"r": 8, "target_modules": None}), {"r": 8, "target_modules": ["down_proj", "q_proj"]})

    def test_without_an_adapter_is_refused(self) -> None:
        with self.assertRaisesRegex(Invalid, "no adapter_config.json, but .'weights.bin'"):
            adapter(self.service(weights__bin=b""), "tinker://x", str(self.folder / "step0"))

    def test_writes_nothing_elsewhere(self) -> None:
        for number, name in enumerate(("../adapter_config__json", "a/../../adapter_config__json",
                                       str(self.folder / "adapter_config__json"))):
            with self.subTest(name), self.assertRaisesRegex(Invalid, "which is no file of an adapter"):
                adapter(self.service(**{name: b""}), "tinker://x", str(self.folder / f"step{number}"))
        self.assertFalse((self.folder / "adapter_config.json").exists())

    def test_follows_no_links(self) -> None:
        with tarfile.open(self.folder / "linked.tar", "w") as archive:
            link = tarfile.TarInfo("adapter_config.json")
            link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
            archive.addfile(link)
        service = self.service()
        self.rest.get_checkpoint_archive_url.return_value.result.return_value = SimpleNamespace(
            url=(self.folder / "linked.tar").as_uri())
        with self.assertRaisesRegex(Invalid, "which is no file of an adapter"):
            adapter(service, "tinker://x", str(self.folder / "step0"))


if __name__ == "__main__":
    unittest.main()
