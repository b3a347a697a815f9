"""`muster init`: a folder for a new lab, or the folder of an old one taken over."""
