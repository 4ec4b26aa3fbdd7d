"""What the tests of commands share with those of the tasks."""

from tests.tasks.vqa.conftest import one_thread as one_thread
