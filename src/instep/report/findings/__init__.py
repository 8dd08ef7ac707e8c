"""What the doctor found, as HTML: a page of its own, and a piece for a notebook. Knows findings as JSON, not the doctor."""
