"""Text to learn a language from: documents, the one row of tokens they make, and tasks whose answers are known."""

from omegamax.data.language.documents import Documents as Documents
from omegamax.data.language.documents import EmbeddedReviews as EmbeddedReviews
from omegamax.data.language.documents import IMDBReviews as IMDBReviews
from omegamax.data.language.documents import TextFiles as TextFiles
from omegamax.data.language.lengths import count_tokens as count_tokens
from omegamax.data.language.lengths import draw_task as draw_task
from omegamax.data.language.stream import TokenStream as TokenStream
from omegamax.data.language.stream import TokenWindows as TokenWindows
from omegamax.data.language.stream import collate_windows as collate_windows
