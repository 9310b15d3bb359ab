"""How many tokens a text costs a language model, estimated without one.

The larger of a quarter of its characters and the number of its words and marks: models split long words and
join some marks, so that the count of either alone is sometimes too low.
"""


def estimate(text: str) -> int:
    words = marks = 0
    inside = False
    for character in text:
        letter = character.isalnum() or character == "_"
        words += letter and not inside
        marks += not letter and not character.isspace()
        inside = letter
    return max(-(-len(text) // 4), words + marks)
