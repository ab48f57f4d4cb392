"""The rules that concern all rows together: what is asked, which numbers look wrong, whose rows they are."""
