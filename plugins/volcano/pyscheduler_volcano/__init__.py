"""The preset `volcano`: the actions and policies of Volcano, so that a batch profile decides as Volcano does."""
