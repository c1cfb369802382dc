"""Words to the outside: a program of the site, webhooks, and mail are told of alarms."""
