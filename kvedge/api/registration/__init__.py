"""How the api role makes itself known to a cluster: webhooks, APIServices, policies, endpoints."""
