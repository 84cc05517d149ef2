"""What a site says of the organisation's own registry: an optional section of ``site.yml``."""

from __future__ import annotations

from appliance.model.site.fields import Address, LoginUser, Project, Settings, Text


class ExternalRegistry(Settings):
    """The organisation's own registry, which the appliance uses and does not run."""

    ca: Text
    """Path of the PEM certificate of the CA that signed for the registry."""
    address: Address | None = None
    """Its IPv4 address, for /etc/hosts; null: the site's DNS servers know its name."""
    project: Project | None = None
    """Project or folder before every image name; null: images are at the top."""
    user: LoginUser | None = None
    """User who pushes, from the services host; the password is in the vault. null: no login."""
    pull_user: LoginUser | None = None
    """User who pulls, on every node, so best one without the right to push; null: user."""

    @property
    def pusher(self) -> str | None:
        """Who logs in to push; one who may only read is enough where every image is there."""
        return self.user or self.pull_user

    @property
    def puller(self) -> str | None:
        """Who logs in to pull."""
        return self.pull_user or self.user
