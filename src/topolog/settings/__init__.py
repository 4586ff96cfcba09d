"""Every setting of topolog, and where its value comes from."""
