"""What the tests of language models share with those of other tasks."""

from tests.tasks.vqa.conftest import one_thread as one_thread
