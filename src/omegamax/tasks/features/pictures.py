"""Pictures to extract features of: those of folders, of zip archives, and single files."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from omegamax.data.files import DataError, FilePath
from omegamax.data.paths import leads_outside
from omegamax.data.pictures import ENDINGS, Pictures


class Picture(NamedTuple):
    """A picture: where it lies, its name there, and the name of its features, without ending."""

    source: Pictures
    name: str
    stem: str


def find_pictures(sources: Iterable[FilePath]) -> list[Picture]:
    """List the pictures of folders, with their subfolders, of zip archives, and single files.

    Features are named after the picture and its subfolder, as :class:`omegamax.data.vqa2.GridFeatures` looks for them.
    """
    pictures: list[Picture] = []
    for source in map(Path, sources):
        if source.is_dir():
            names = sorted(path.relative_to(source).as_posix() for path in source.rglob("*") if path.is_file())
            where, names = Pictures(source), [name for name in names if _is_picture(name)]
        elif source.suffix.lower() == ".zip":
            where, names = Pictures(source), [name for name in _members(source) if _is_picture(name)]
        elif source.is_file():
            real = source.resolve()  # a link that the user names may lead anywhere
            where, names = Pictures(real.parent), [real.name]
        else:
            raise FileNotFoundError(f"{source} does not exist; give a folder, a zip archive or picture files")
        if not names:
            raise DataError(f"{source} has no pictures ({', '.join(ENDINGS)}); give another folder or archive")
        stems = [source.name] if source.is_file() and source.suffix.lower() != ".zip" else names
        pictures += [
            Picture(where, name, str(PurePosixPath(stem).with_suffix("")))
            for name, stem in zip(names, stems, strict=True)
        ]
    seen: dict[str, Picture] = {}
    for picture in pictures:
        other = seen.setdefault(picture.stem, picture)
        if other is not picture:
            both = " and ".join(f"{one.source.source}: {one.name}" for one in (other, picture))
            raise DataError(f"{both} would have features of one name; rename one, or extract into two folders")
    return pictures


def _is_picture(name: str) -> bool:
    path = PurePosixPath(name)
    return path.suffix.lower() in ENDINGS and not any(part.startswith((".", "__MACOSX")) for part in path.parts)


def _members(archive: Path) -> list[str]:
    try:
        with zipfile.ZipFile(archive) as file:
            names = sorted(info.filename for info in file.infolist() if not info.is_dir())
    except FileNotFoundError:
        raise FileNotFoundError(f"{archive} does not exist; check the path") from None
    except (zipfile.BadZipFile, OSError) as error:
        raise DataError(f"{archive} is damaged or no zip archive ({error}); get it again") from error
    outside = next((name for name in names if leads_outside(name)), None)
    if outside is not None:
        raise DataError(f"{archive} has the member {outside}, which would be written outside the folder; unpack it")
    return names
