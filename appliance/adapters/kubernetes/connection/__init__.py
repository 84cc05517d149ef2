"""The connection to a site's API servers: credentials, client, and which server answers."""
