"""What the tests of crash safety share: whole trees as values, subjects, runs and their seams."""
